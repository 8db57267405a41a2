"""`data` and `autoencoder`: where the images come from, their shape, and what makes latents of them."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, Budget, Depth, Outside, Width

ColourValue = Annotated[int, Field(ge=0, le=255)]


class Data(Strict):
    """Images and their split into a training and a held-out part."""

    source: str = Field(description="digits, patches, cifar10, folder, array, or another of `unequal.data.sources`")
    path: Outside | None = Field(description="folder or file; for cifar10 where it lies or is downloaded to")
    image_size: int = Field(ge=4, le=4096, description="height and width in pixels")
    channels: Literal[1, 3] = Field(description="1 grey, 3 RGB")
    fit: Literal["exact", "crop", "resize"] = Field(description="images of another size: refused, cropped, squeezed")
    convert: bool = Field(True, description="images of other modes are made 8-bit grey or RGB; false refuses them")
    background: tuple[ColourValue, ColourValue, ColourValue] = Field((255, 255, 255), description="if transparent")
    holdout: float = Field(gt=0, le=0.9, description="share of the images kept out of training")


class Encoding(Strict):
    """How any autoencoder is used."""

    precision: Literal["auto", "fp32", "bf16"] = Field(description="of encoding; auto: bf16 on a GPU that has it")


class PretrainedAutoencoder(Encoding):
    """A trained one of diffusers."""

    kind: Literal["pretrained"]
    source: Outside = Field(description="folder of an AutoencoderKL, a VQModel or their pipeline, or owner/name@commit")
    latent_channels: Width = Field(description="of its latents")
    factor: Width = Field(description="pixels of an image for one of its latent, a side")
    scaling_factor: PositiveFloat | None = Field(None, description="of latents; null: what its config says")
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
