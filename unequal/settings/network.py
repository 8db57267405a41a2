"""`network`: the UNet2DModel that is the base."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from unequal.settings.strict import Strict
from unequal.settings.task import Generation, Task


class OpenAIFlags(Strict):
    """How a network of improved-diffusion or guided-diffusion was made, as far as its tensors do not tell."""

    num_heads: PositiveInt | None = Field(default=None, description="attention heads of every level")
    num_head_channels: PositiveInt | None = Field(default=None, description="or the channels of each head")
    use_new_attention_order: bool = Field(default=False, description="as guided-diffusion was told")
    rescale_timesteps: bool = Field(default=True, description="improved-diffusion's default; the same at T = 1000")

    @model_validator(mode="after")
    def heads_are_told_once(self) -> Self:
        """Their number gives their width, and their width their number."""
        if (self.num_heads is None) == (self.num_head_channels is None):
            raise ValueError("needs either num_heads or num_head_channels, as in the flags of its training")
        return self


class Network(Strict):
    """Architecture of the base, or where a trained one lies."""

    pretrained: str | None = Field(
        description="a diffusers folder or Hub id, or a .pt file of OpenAI's, taken as base instead of training one; "
        "null trains"
    )
    openai: OpenAIFlags | None = Field(
        default=None, description="flags of a pretrained .pt file of improved-diffusion or guided-diffusion"
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
    learned_variance: bool = Field(
        default=False,
        description="further output channels learn the variance of a sampling step (IDDPM), of models with one head",
    )
    classes: PositiveInt | None = Field(
        default=None, description="that the network is told, those of the data's labels; null: an unconditional network"
    )
    task: Task = Field(default=Generation(kind="generation"), description="generation, or super-resolution by a factor")

    @model_validator(mode="after")
    def flags_have_their_file(self) -> Self:
        """A .pt file needs them, and nothing else has any."""
        if (self.openai is not None) != str(self.pretrained).endswith(".pt"):
            has = "needed by" if self.openai is None else "have no meaning for"
            raise ValueError(f"openai: flags {has} pretrained '{self.pretrained}'; a .pt file has them, nothing else")
        return self

    @model_validator(mode="after")
    def labels_are_of_generation(self) -> Self:
        """An image at low resolution is told, or a label."""
        if self.classes is not None and self.enlargement is not None:
            raise ValueError(f"classes: {self.classes}; networks of super_resolution see images alone, allowed: null")
        return self

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
    def enlargement(self) -> int | None:
        """Factor of super-resolution, None for generation."""
        return self.task.enlargement

    def input_channels(self, channels: int) -> int:
        """Channels of the first layer, for images of so many: super-resolution sees two images side by side."""
        return channels if self.enlargement is None else 2 * channels

    def output_channels(self, channels: int, heads: int = 1) -> int:
        """Channels of the last layer, for images of so many: one head may learn a variance beside its prediction."""
        return channels * (2 if heads == 1 and self.learned_variance else heads)

    def enlarges(self, image_size: int) -> None:
        """Raises ValueError where images of that size have no low-resolution form."""
        if self.enlargement is not None and image_size % self.enlargement:
            raise ValueError(f"network.task.factor: {self.enlargement} does not divide data.image_size {image_size}")

    def attends(self, image_size: int) -> list[bool]:
        """Whether each level has attention, for images of that size. Raises ValueError where that cannot be."""
        levels = len(self.block_out_channels)
        if image_size % 2 ** (levels - 1):
            raise ValueError(
                f"data.image_size: {image_size} cannot be halved {levels - 1} times by the network; "
                f"allowed: multiples of {2 ** (levels - 1)}"
            )
        sizes = [image_size // 2**level for level in range(levels)]
        for size in self.attention_resolutions:
            if size not in sizes:
                raise ValueError(f"network.attention_resolutions: {size} is no feature-map size; allowed: {sizes}")
        attends = [size in self.attention_resolutions for size in sizes]
        middle = [False] * (levels - 1) + [self.middle_attention]
        for channels, *anywhere in zip(self.block_out_channels, attends, middle, strict=True):
            if any(anywhere) and channels % self.attention_head_dim:
                raise ValueError(
                    f"network.attention_head_dim: {self.attention_head_dim} does not divide the {channels} channels "
                    "of a level with attention"
                )
        return attends
