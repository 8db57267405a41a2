"""`network`: the UNet2DModel that is the base."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from unequal.settings.strict import Strict


class Network(Strict):
    """Architecture of the base, or where a trained one lies."""

    pretrained: str | None = Field(
        description="a diffusers folder or Hub id taken as base instead of training one; null trains"
    )
    block_out_channels: tuple[PositiveInt, ...] = Field(min_length=1, description="channels of each resolution")
    layers_per_block: int = Field(ge=1)
    attention_resolutions: tuple[PositiveInt, ...] = Field(
        description="feature-map sizes in pixels that get attention, besides the middle block"
    )
    middle_attention: bool
    attention_head_dim: PositiveInt
    norm_num_groups: PositiveInt
    scale_shift: bool = Field(description="time embedding scales and shifts the norm (IDDPM)")
    dropout: float = Field(ge=0, lt=1)

    @model_validator(mode="after")
    def channels_can_be_grouped(self) -> Self:
        """GroupNorm and attention heads must divide the channels."""
        for channels in self.block_out_channels:
            if channels % self.norm_num_groups:
                raise ValueError(
                    f"block_out_channels: {channels} is no multiple of norm_num_groups {self.norm_num_groups}"
                )
            if channels % self.attention_head_dim and (self.attention_resolutions or self.middle_attention):
                raise ValueError(
                    f"block_out_channels: {channels} is no multiple of attention_head_dim {self.attention_head_dim}"
                )
        return self
