"""What three heads of one network are in other combinations, over all blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.predictions.combining import BY_ERRORS, BY_SAMPLES
from studies.small_batches.findings import Estimate
from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.results import file_of
from unequal.diffusion.predictions import HEADS
from unequal.errors import UserError
from unequal.timesteps.partition import TimestepRange

#: Every combination of three heads.
COMBINATIONS = (*BY_ERRORS, BY_SAMPLES)


class HeadFigures(Figures):
    """results/heads/<arm>/block_<seed>.json."""

    arm: str
    block: int
    combinations: dict[str, dict[str, float]]
    swaps: dict[str, Any]
    curves: list[list[float]]
    wins: dict[str, Any]


@dataclass(frozen=True)
class Heads:
    """Of an arm, figures of every block."""

    arm: str
    blocks: Sequence[dict[str, Any]]

    def told(self, combination: str, figure: str) -> list[float]:
        """A figure of a combination, one a block."""
        return [one["combinations"][combination][figure] for one in self.blocks]

    @property
    def ranges(self) -> list[TimestepRange]:
        """In which one head speaks for once."""
        return [TimestepRange(*one) for one in self.blocks[0]["swaps"]["ranges"]]

    def swap(self, number: int, head: int) -> Estimate:
        """ln of the FID where a head speaks in a range, over that where the head that errs least speaks there."""
        found = [one["swaps"] for one in self.blocks]
        return Estimate.of(np.log([one["fid"][number][head] / one["least"] for one in found]))

    def wins(self, figure: str) -> np.ndarray:
        """A figure of who had the smallest error, [blocks, …]; NaN where no image came."""
        rows = [one["wins"][figure] for one in self.blocks]
        return np.array([without_none(row) for row in rows], dtype=float)

    @property
    def starts(self) -> list[int]:
        """The first timestep of each bin of the winners."""
        return list(self.blocks[0]["wins"]["starts"])

    def curve(self, head: int) -> np.ndarray:
        """Losses of ε of a head over the bins of all arms' curves, [blocks, bins]."""
        return np.array([one["curves"][head] for one in self.blocks])


def without_none(row: Any) -> Any:
    """Rows of shares as numbers."""
    return [[np.nan] * len(HEADS) if one is None else one for one in row] if isinstance(row, list) else row


def read_heads(folder: Path, arms: Sequence[str], blocks: Sequence[int]) -> list[Heads]:
    """Those of some arms. Raises UserError where a file is missing, of another training, or without a combination."""
    found = []
    for arm in arms:
        files = {block: folder / file_of(arm, block) for block in blocks}
        read = {block: read_figures(file, HeadFigures) for block, file in files.items()}
        for block, one in read.items():
            if (one["arm"], one["block"]) != (arm, block):
                raise UserError(f"{files[block]}: tells of '{one['arm']}' in block {one['block']}; measure it again")
            if gone := [name for name in COMBINATIONS if name not in one["combinations"]]:
                raise UserError(f"{files[block]}: combination '{gone[0]}' is missing; measure the heads again")
            if one["swaps"]["ranges"] != read[blocks[0]]["swaps"]["ranges"]:
                raise UserError(f"{files[block]}: other ranges than {files[blocks[0]]} has; measure the heads again")
        found.append(Heads(arm, [dict(one) for one in read.values()]))
    return found
