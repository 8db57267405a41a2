"""Check whether pruning reaches the limits of FLOPs that the settings ask for, before anything is trained."""

import numpy as np
import torch

from unequal.errors import UserError
from unequal.experts.anatomy import Anatomy, units_by
from unequal.experts.fit import removed_channels
from unequal.models.backbones.backbone import build_outline
from unequal.models.spec import ModelSpec, Space
from unequal.settings.core import Core


def check_reach(params: Core) -> None:
    """Raise UserError where a limit of the settings is out of reach of every way of pruning.

    A trained network from elsewhere is not looked at: its architecture is not known from the settings. Nor is one of a
    kind that nothing can prune, all else of which may be wanted; the stage that is to prune it says so.
    """
    if not params.pruning_limits or params.network.pretrained is not None:
        return
    try:
        least = least_share(params)
    except UserError:
        return
    for place, limit in params.pruning_limits.items():
        if limit < least:
            raise UserError(
                f"{place}: a limit of {limit:.4g} of the base's FLOPs is out of reach of pruning; with one "
                f"unit left in every layer of the network there are {least:.4g}"
            )


def least_share(params: Core) -> float:
    """Share of the base's multiply–accumulates that is left with one unit in every layer."""
    channels, size = params.seen
    spec = ModelSpec.of(
        params.network, params.schedule, params.recipes["base"].prediction, Space(channels=channels, size=size)
    )
    anatomy = Anatomy(build_outline(params.network, spec))
    spare = units_by(lambda group: torch.zeros(len(group[0].idxs)), anatomy)
    none = np.zeros(len(anatomy.layers), dtype=np.int64)
    return anatomy.macs(removed_channels(anatomy, spare)) / anatomy.macs(none)
