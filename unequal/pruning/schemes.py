"""Schemes: a pruning ratio for each block of a network, as a decision maker hands them in.

A network has some 20 to 70 prunable layers, too many figures to be decided by some ten trials and more than a
person reads; its backbone names a handful of blocks, of a U-Net its resolutions. So a scheme says what share of
each block's units goes, and within a block an importance says which. Any limit can be met from any scheme: it
is scaled until it does.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from unequal.models.backbones.prunable import Block
from unequal.pruning.units import Unit

#: Block → share of its units that goes, from 0 (none) to 1 (all that can).
Scheme = Mapping[str, float]


def blocks_of(ranking: Sequence[Unit]) -> dict[str, list[Unit]]:
    """The units of each block, in the order of the ranking; blocks in the order in which an image passes them."""
    blocks: dict[Block, list[Unit]] = {}
    for unit in ranking:
        blocks.setdefault(unit.block, []).append(unit)
    return {block.name: blocks[block] for block in sorted(blocks)}


def scaled_order(ranking: Sequence[Unit], scheme: Scheme) -> list[Unit]:
    """The units in the order in which they go while a scheme is scaled up, the first to go first.

    Scaled by −1 ≤ s ≤ 0, a ratio r is r·(1 + s), from none to the scheme itself; by 0 ≤ s ≤ 1 it is
    r + s·(1 − r), up to all. So s = 0 stands between what the scheme removes and what it keeps, and the proportions
    are kept for limits above and below.

    Args:
        ranking: all units that may go, the least important first.
        scheme: of every block that the ranking has.
    """
    scales: dict[Unit, float] = {}
    for block, units in blocks_of(ranking).items():
        for i, unit in enumerate(units):
            scales[unit] = scale_at(scheme[block], (i + 0.5) / len(units))
    return sorted(ranking, key=scales.__getitem__)


def random_scheme(blocks: Sequence[str], generator: np.random.Generator) -> dict[str, float]:
    """Ratios drawn uniformly from [0, 1); the limit scales them."""
    return dict(zip(blocks, generator.random(len(blocks)).tolist(), strict=True))


def scale_at(ratio: float, share: float) -> float:
    """The scale s at which a ratio has become a share in (0, 1)."""
    return share / ratio - 1 if share < ratio else (share - ratio) / (1 - ratio)


def scheme_of(gone: Sequence[Unit], ranking: Sequence[Unit]) -> dict[str, float]:
    """The scheme that a choice of units amounts to."""
    lost = {block: len(units) for block, units in blocks_of(gone).items()}
    return {block: lost.get(block, 0) / len(units) for block, units in blocks_of(ranking).items()}
