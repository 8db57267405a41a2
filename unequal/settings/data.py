"""`data` and `autoencoder`: where the images come from, their shape, and what makes latents of them."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Budget, Depth, Outside, Width

#: Sources that come with scikit-learn, and the widest patch of which k-means finds its classes.
EMBEDDED = ("digits", "patches")
WIDEST_PATCH = 128
ColourValue = Annotated[int, Field(ge=0, le=255)]


class Data(Strict):
    """Images and their split into a training and a held-out part."""

    source: Literal["digits", "patches", "cifar10", "folder", "array"] = Field(
        description="digits and patches of photographs (both in scikit-learn), cifar10 (torchvision), "
        "a folder of images, an .npy/.npz array"
    )
    path: Outside | None = Field(description="folder or file; for cifar10 where it lies or is downloaded to")
    image_size: int = Field(ge=4, le=4096, description="height and width in pixels")
    channels: Literal[1, 3] = Field(description="1 grey, 3 RGB")
    fit: Literal["exact", "crop", "resize"] = Field(
        description="images of another size: refused, resized and centre-cropped, or squeezed"
    )
    convert: bool = Field(
        default=True, description="images of other modes are made 8-bit grey or RGB, and counted; false refuses them"
    )
    background: tuple[ColourValue, ColourValue, ColourValue] = Field(
        default=(255, 255, 255), description="red, green and blue behind transparent pixels"
    )
    holdout: float = Field(gt=0, le=0.9, description="share of the images kept out of training")

    @model_validator(mode="after")
    def source_has_what_it_needs(self) -> Self:
        """Combinations of source, path, size and channels that cannot be."""
        if self.source not in EMBEDDED and self.path is None:
            raise ValueError(f"source '{self.source}' needs a path; allowed without one: {', '.join(EMBEDDED)}")
        if self.source in EMBEDDED and self.path is not None:
            raise ValueError(
                f"path: has no meaning for source '{self.source}', which lie in scikit-learn; set it to null"
            )
        if self.source in EMBEDDED and self.fit != "exact":
            raise ValueError(
                f"fit: '{self.fit}' has no meaning for source '{self.source}', of one size; allowed: exact"
            )
        if self.source == "digits" and (self.image_size, self.channels) != (8, 1):
            raise ValueError("digits are 8 pixels wide with 1 channel; set image_size: 8, channels: 1")
        if self.source == "patches" and (self.channels != 3 or self.image_size > WIDEST_PATCH):
            raise ValueError(f"patches have 3 channels and at most {WIDEST_PATCH} pixels a side")
        if self.source == "cifar10" and (self.channels != 3 or (self.fit == "exact" and self.image_size != 32)):
            raise ValueError("cifar10 is 32 pixels wide with 3 channels; another image_size needs fit: crop or resize")
        return self


class Encoding(Strict):
    """How any autoencoder is used."""

    precision: Literal["auto", "fp32", "bf16"] = Field(
        description="of encoding; auto: bf16 on a GPU that has it, else fp32; decoding takes sampling.precision"
    )


class PretrainedAutoencoder(Encoding):
    """A trained one of diffusers."""

    kind: Literal["pretrained"]
    source: Outside = Field(
        description="folder of an AutoencoderKL or VQModel or of a pipeline that holds one, or owner/name@commit"
    )
    latent_channels: Width = Field(description="of its latents")
    factor: Width = Field(description="pixels of an image for one of its latent, a side")
    scaling_factor: PositiveFloat | None = Field(
        default=None, description="what latents are multiplied with; null: what its config says"
    )
    batch_size: BatchSize = Field(description="images that are encoded or decoded at once")


class TrainedAutoencoder(Encoding):
    """An AutoencoderKL (2112.10752) trained on the images: squared error and a little KL divergence."""

    kind: Literal["trained"]
    latent_channels: Width
    block_out_channels: tuple[Width, ...] = Field(
        min_length=1, max_length=12, description="channels of each resolution; each after the first halves the image"
    )
    layers_per_block: Depth
    norm_num_groups: Width
    kl_weight: float = Field(ge=0, description="of the KL divergence a latent value, next to the squared error a pixel")
    images: Budget = Field(description="budget: images seen in training")
    batch_size: BatchSize = Field(description="images a training step, and that are encoded or decoded at once")
    lr: PositiveFloat

    @model_validator(mode="after")
    def channels_can_be_grouped(self) -> Self:
        """GroupNorm must divide the channels."""
        for channels in self.block_out_channels:
            if channels % self.norm_num_groups:
                raise ValueError(
                    f"block_out_channels: {channels} is no multiple of norm_num_groups {self.norm_num_groups}"
                )
        return self

    @property
    def factor(self) -> int:
        """Pixels of an image for one of its latent, a side."""
        return 2 ** (len(self.block_out_channels) - 1)


AnyAutoencoder = Annotated[PretrainedAutoencoder | TrainedAutoencoder, Field(discriminator="kind")]
