"""`autoencoder`: what makes latents of images and images of latents again, for diffusion in latent space."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from unequal.settings.numbers import BatchSize, Budget, Depth, Width
from unequal.settings.outside import Outside
from unequal.settings.strict import Strict


class PretrainedAutoencoder(Strict):
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


class TrainedAutoencoder(Strict):
    """An AutoencoderKL (2112.10752) trained on the images: squared error and a little KL divergence."""

    kind: Literal["trained"]
    latent_channels: Width
    block_out_channels: tuple[Width, ...] = Field(
        min_length=1, max_length=12, description="channels of each resolution; each after the first halves the image"
    )
    layers_per_block: Depth
    norm_num_groups: Width
    kl_weight: float = Field(ge=0, description="of the KL divergence a latent value, beside the squared error a pixel")
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
