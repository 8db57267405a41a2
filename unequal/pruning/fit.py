"""Choosing units so that the measured FLOPs meet a limit as closely as the channels allow."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.errors import UserError
from unequal.models.flops import Cost, count_cost
from unequal.models.pruned import Removal, replay
from unequal.pruning.units import Unit

#: A fit below this share of the limit wastes it: other units are tried to come closer.
CLOSE_ENOUGH = 0.97
#: How many further units are tried, in the order of their importance.
ALTERNATIVES = 16


@dataclass(frozen=True)
class PrunedNetwork:
    """A network under its limit, and the removals that made it from the unpruned one."""

    net: UNet2DModel
    removals: list[Removal]
    cost: Cost


def remove(net: UNet2DModel, units: Sequence[Unit]) -> PrunedNetwork:
    """A copy of a network without these units."""
    channels: dict[str, list[int]] = {}
    for unit in units:
        channels.setdefault(unit.layer, []).extend(unit.channels)
    removals: list[Removal] = [(layer, sorted(channels[layer])) for layer in sorted(channels)]
    pruned = copy.deepcopy(net)
    replay(pruned, removals)
    return PrunedNetwork(pruned, removals, count_cost(pruned))


def fit_to_limit(net: UNet2DModel, units: Sequence[Unit], limit_macs: float) -> PrunedNetwork:
    """Remove the least important units until the network meets a limit.

    Args:
        net: the unpruned network; it is left as it is.
        units: the least important first.
        limit_macs: largest number of multiply–accumulates of one image.

    Raises:
        UserError: a limit that even the removal of all units does not reach.
    """
    low, high = 0, len(units)
    fitting = remove(net, units[:high])
    if fitting.cost.macs > limit_macs:
        raise UserError(
            f"pruning: a limit of {limit_macs:.0f} multiply–accumulates is out of reach; "
            f"with one unit left in every layer there are {fitting.cost.macs}"
        )
    # The fewest units that meet the limit: costs fall with every unit removed.
    while low < high:
        middle = (low + high) // 2
        candidate = remove(net, units[:middle])
        if candidate.cost.macs <= limit_macs:
            high, fitting = middle, candidate
        else:
            low = middle + 1
    return closer(net, units, high, limit_macs, fitting) if high else fitting


def closer(
    net: UNet2DModel, units: Sequence[Unit], count: int, limit_macs: float, fitting: PrunedNetwork
) -> PrunedNetwork:
    """Where the last unit overshoots, take a smaller one in its place."""
    for other in units[count : count + ALTERNATIVES]:
        if fitting.cost.macs >= CLOSE_ENOUGH * limit_macs:
            break
        candidate = remove(net, [*units[: count - 1], other])
        if fitting.cost.macs < candidate.cost.macs <= limit_macs:
            fitting = candidate
    return fitting
