"""How many heads the attention layers of a UNet2DModel have.

diffusers gives every layer heads of one width, `attention_head_dim`. OpenAI's networks may have as many heads at every
level instead, of which each is as wide as its level allows. The weights look the same either way: heads say only how
an attention layer divides its channels, so a network can be given others after it was built.
"""

from collections.abc import Iterator

from diffusers.models.attention_processor import Attention

from unequal.errors import UserError
from unequal.models.backbones.unet2d.network import UNet2DModel

#: In a network's config, beside diffusers' own settings: heads of every attention layer, whatever its width.
HEADS = "attention_heads"


def give_heads(net: UNet2DModel, heads: int) -> None:
    """Give every attention layer of an unpruned network so many heads. Raises UserError where they do not divide it."""
    for attention, _ in attentions(net):
        if not isinstance(heads, int) or heads < 1 or attention.inner_dim % heads:
            raise UserError(f"{HEADS}: {heads}; allowed: what divides {attention.inner_dim}, the channels of a level")
        attention.heads = attention.sliceable_head_dim = heads
        attention.scale = (attention.inner_dim / heads) ** -0.5
    net.register_to_config(**{HEADS: heads})


def restore_heads(net: UNet2DModel) -> UNet2DModel:
    """The same network with the heads that its config tells, which diffusers reads past."""
    if (heads := net.config.get(HEADS)) is not None:
        give_heads(net, heads)
    return net


def attentions(net: UNet2DModel) -> Iterator[tuple[Attention, int]]:
    """Every attention layer and the width of its heads, which pruning does not change."""
    for module in net.modules():
        if isinstance(module, Attention):
            # scale = width^-½ is set once, from the unpruned width.
            yield module, round(module.scale**-2)
