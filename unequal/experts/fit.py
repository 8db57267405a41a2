"""Choosing units so that the measured FLOPs meet a limit as closely as the channels allow."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import nn

from unequal.errors import UserError
from unequal.experts.anatomy import Anatomy, Unit
from unequal.models.backbones.backbone import Cost, count_cost
from unequal.models.folder import Removal
from unequal.models.pruned import take_away


@dataclass(frozen=True)
class PrunedNetwork:
    """A network under its limit, the units that it lacks, their record layer by layer, and its measured cost."""

    net: nn.Module
    gone: list[Unit]
    removals: list[Removal]
    cost: Cost


def fit_to_limit(anatomy: Anatomy, order: Sequence[Unit], limit_macs: float) -> PrunedNetwork:
    """The network with its most important units, as many as a limit allows.

    Args:
        anatomy: of the unpruned network, which is left as it is.
        order: all units that may go, the least important first.
        limit_macs: largest number of multiply–accumulates of one image.

    Raises:
        UserError: a limit that even the removal of all units does not reach, or a network whose cost is not that
            of its layers.
    """
    gone = too_many(anatomy, order, limit_macs)
    pruned = remove(anatomy.net, gone)
    expected = anatomy.macs(removed_channels(anatomy, gone))
    if pruned.cost.macs != expected:
        raise UserError(
            f"pruning: the network takes {pruned.cost.macs} multiply–accumulates, its convolutions and linear layers "
            f"{expected}; it holds blocks that cannot be pruned here"
        )
    return pruned


def too_many(anatomy: Anatomy, order: Sequence[Unit], limit_macs: float) -> list[Unit]:
    """The units that have to go, the most important first.

    Beginning with none, units come back by falling importance, each if the limit allows it. So what is left of
    the limit is too little for any unit that is gone.
    """
    left = removed_channels(anatomy, order)
    if (least := anatomy.macs(left)) > limit_macs:
        raise UserError(
            f"pruning: a limit of {limit_macs:.0f} multiply–accumulates is out of reach; "
            f"with one unit left in every layer there are {least}"
        )
    gone = []
    for unit in reversed(order):
        with_it = left - removed_channels(anatomy, [unit])
        if anatomy.macs(with_it) <= limit_macs:
            left = with_it
        else:
            gone.append(unit)
    return gone


def removed_channels(anatomy: Anatomy, units: Sequence[Unit]) -> np.ndarray:
    """Number of channels of each of the anatomy's layers among these units, [layers]."""
    rows = np.array([anatomy.index[unit.layer] for unit in units], dtype=np.int64)
    counts = [len(unit.channels) for unit in units]
    return np.bincount(rows, counts, minlength=len(anatomy.layers)).astype(np.int64)


def remove(net: nn.Module, units: Sequence[Unit]) -> PrunedNetwork:
    """A copy of a network without these units."""
    channels: dict[str, list[int]] = {}
    for unit in units:
        channels.setdefault(unit.layer, []).extend(unit.channels)
    removals: list[Removal] = [(layer, sorted(channels[layer])) for layer in sorted(channels)]
    pruned = copy.deepcopy(net)
    take_away(pruned, removals)
    return PrunedNetwork(pruned, list(units), removals, count_cost(pruned))
