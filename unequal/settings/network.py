"""`network`: what the base is made of."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from unequal.settings.condition import AnyCondition, Unconditional
from unequal.settings.strict import Strict
from unequal.settings.values import Depth, Outside, Width

#: Variance of a sampling step: settled by the schedule, or learned in further output channels.
Variance = Literal["fixed", "learned"]


class Network(Strict):
    """Settings of any kind of network; `unequal.models.backbones` makes networks of them."""

    kind: str
    #: A folder of diffusers or owner/name@commit on the Hub, or a .pt file of OpenAI's, of DiT or of SiT.
    pretrained: Outside | None = Field(description="a trained network, taken as base; null: one is trained")
    condition: AnyCondition = Field(Unconditional(), description="none, labels, or the image at low resolution")
    variance: Variance = Field("fixed", description="of a sampling step; learned: in further output channels (IDDPM)")

    def check_size(self, image_size: int) -> None:
        """Raise ValueError where the network cannot take images of that size."""
        factor = getattr(self.condition, "super_resolution_factor", 1)
        if image_size % factor:
            raise ValueError(
                f"network.condition.super_resolution_factor: {factor} does not divide data.image_size {image_size}"
            )


class OpenAIFlags(Strict):
    """Options of a network of improved-diffusion or guided-diffusion that its tensors do not show."""

    num_heads: PositiveInt | None = Field(default=None, description="attention heads of every level")
    num_head_channels: PositiveInt | None = Field(default=None, description="or the channels of each head")
    use_new_attention_order: bool = Field(default=False, description="as in guided-diffusion")
    rescale_timesteps: bool = Field(default=True, description="improved-diffusion's default; the same at T = 1000")

    @model_validator(mode="after")
    def heads_are_given_once(self) -> Self:
        """Their number gives their width, and their width their number."""
        if (self.num_heads is None) == (self.num_head_channels is None):
            raise ValueError("num_heads: needed, or num_head_channels, one of both, as in the flags of its training")
        return self


class UNet2D(Network):
    """A U-Net with attention (DDPM, IDDPM): its architecture, or where a trained one lies."""

    kind: Literal["unet2d"] = "unet2d"
    openai: OpenAIFlags | None = Field(None, description="of a .pt file of improved-diffusion or guided-diffusion")
    block_out_channels: tuple[Width, ...] = Field(min_length=1, max_length=12, description="of each resolution")
    layers_per_block: Depth
    attention_resolutions: tuple[PositiveInt, ...] = Field(description="feature-map sizes in pixels that get attention")
    middle_attention: bool
    attention_head_dim: Width
    norm_num_groups: Width
    scale_shift: bool = Field(description="time embedding scales and shifts the norm (IDDPM)")
    dropout: float = Field(ge=0, lt=1)

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """A .pt file needs flags, and nothing else has any; GroupNorm must divide the channels."""
        if (self.openai is not None) != str(self.pretrained).endswith(".pt"):
            has = "needed by" if self.openai is None else "have no meaning for"
            raise ValueError(f"openai: flags {has} pretrained '{self.pretrained}'; a .pt file has them, nothing else")
        for channels in self.block_out_channels:
            if channels % self.norm_num_groups:
                raise ValueError(
                    f"block_out_channels: {channels} is no multiple of norm_num_groups {self.norm_num_groups}"
                )
        return self

    def check_size(self, image_size: int) -> None:
        """Also where levels cannot halve it, or attention stands at a size that there is not."""
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
        for level, (channels, size) in enumerate(zip(self.block_out_channels, sizes, strict=True), 1):
            attends = size in self.attention_resolutions or (self.middle_attention and level == levels)
            if attends and channels % self.attention_head_dim:
                raise ValueError(
                    f"network.attention_head_dim: {self.attention_head_dim} does not divide the {channels} channels "
                    "of a level with attention"
                )
        super().check_size(image_size)


#: Parts of sine-cosine positions: a quarter of the channels each for sine and cosine, of rows and of columns.
POSITIONS = 4


class DiT(Network):
    """A transformer on patches (DiT, SiT): its architecture, which a trained one has too."""

    kind: Literal["dit"]
    trained_by: Literal["dit", "sit"] | None = Field(None, description="whose code a .pt file is from")
    depth: Depth = Field(description="blocks, each of attention and an MLP of four times the width")
    width: Width = Field(description="channels of a patch on its way; a multiple of heads, and of 4")
    heads: Width = Field(description="attention heads of a block")
    patch: Width = Field(description="pixels of a patch, a side; one patch is one token")

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """A .pt file of DiT looks like one of SiT; heads, and sines and cosines of positions, divide the width."""
        if (self.trained_by is not None) != str(self.pretrained).endswith(".pt"):
            has = "needed by" if self.trained_by is None else "has no meaning for"
            raise ValueError(f"trained_by: {has} pretrained '{self.pretrained}'; a .pt file has it, nothing else")
        if self.width % self.heads:
            raise ValueError(f"heads: {self.heads} do not divide the width {self.width}")
        if self.width % POSITIONS:
            raise ValueError(f"width: {self.width} is no multiple of {POSITIONS}, as sine-cosine positions need")
        return self

    def check_size(self, image_size: int) -> None:
        """Also where patches do not cover it."""
        if image_size % self.patch:
            raise ValueError(
                f"network.patch: {self.patch} does not divide the {image_size} pixels that the network sees"
            )
        super().check_size(image_size)


def kind_of(network: Any) -> str:
    """The kind of a network, `unet2d` by default."""
    return network.get("kind", "unet2d") if isinstance(network, dict) else getattr(network, "kind", "unet2d")


AnyNetwork = Annotated[
    Annotated[UNet2D, Tag("unet2d")] | Annotated[DiT, Tag("dit")], Field(discriminator=Discriminator(kind_of))
]
