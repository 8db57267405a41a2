"""Which kinds of networks can be pruned; a further one is a class in its package and a line in `built_in`."""

from torch import nn

from unequal.errors import UserError
from unequal.models.backbones.prunable import PrunableKind
from unequal.models.backbones.registry import backbone_of

#: Those from outside the library.
_registered: dict[str, PrunableKind] = {}


def built_in() -> dict[str, PrunableKind]:
    """The library's own, by kind."""
    # Imported when they are asked for, as the backbones are.
    from unequal.models.backbones.dit.pruning import PrunableDiT
    from unequal.models.backbones.unet2d.pruning import PrunableUNet2D

    return {one.kind: one for one in (PrunableUNet2D(), PrunableDiT())}


def register(prunable: PrunableKind) -> None:
    """Make known to this process how a further kind of network is pruned."""
    _registered[prunable.kind] = prunable


def prunable_kind_of(net: nn.Module) -> PrunableKind:
    """How networks of a network's kind are pruned. Raises UserError where they cannot be."""
    kind, known = backbone_of(net).kind, built_in() | _registered
    if kind not in known:
        raise UserError(f"pruning: networks of kind {kind} cannot be pruned; allowed: {', '.join(known)}")
    return known[kind]
