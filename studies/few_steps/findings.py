"""Scores of the ways to take few steps, read from results/scores and results/again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from studies.few_steps.params import Sweep
from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.confirmation import once_more
from unequal.errors import UserError
from unequal.statistics.estimates import BlockModel
from unequal.statistics.verdicts import Verdict, judge

#: Whose figures a block of the confirmation has.
FIRST, CONTROL = "first", "control"


class WayFigures(Figures):
    """A way's scores in a block."""

    fid: PositiveFloat
    calls: PositiveInt
    timesteps: list[int]


class BlockFigures(Figures):
    """results/scores/calls_<calls>/block_<seed>.json."""

    block: int
    calls: int
    ways: dict[str, WayFigures]
    conditions: dict[str, Any]


class FirstFigures(Figures):
    """results/first.json: number of calls → way."""

    first: dict[str, str]


class TriedAgain(WayFigures):
    """With the name of the way."""

    way: str


class PairFigures(Figures):
    """The way that came first with a number of calls, and the control."""

    first: TriedAgain
    control: TriedAgain


class AgainFigures(Figures):
    """results/again/block_<seed>.json: number of calls → both."""

    block: int
    calls: dict[str, PairFigures]


@dataclass(frozen=True)
class Found:
    """Scores of all ways.

    Attributes:
        sweep: the plan.
        scores: number of calls → block → what its file holds.
    """

    sweep: Sweep
    scores: Mapping[int, Mapping[int, Mapping[str, Any]]]

    @property
    def any(self) -> Mapping[str, Any]:
        """One of the files: what all have alike stands in it."""
        return self.scores[self.sweep.calls[0]][self.sweep.seeds[0]]

    def of(self, calls: int, way: str) -> list[Mapping[str, Any]]:
        """A way's figures, one a block."""
        return [block["ways"][way] for block in self.scores[calls].values()]

    def fids(self, calls: int, way: str) -> list[float]:
        """FID in each block."""
        return [one["fid"] for one in self.of(calls, way)]

    def blocks(self, calls: int) -> BlockModel:
        """ln FID of all ways, the control's second samples among them, in all blocks."""
        arms = (*self.sweep.ways, self.sweep.repeated)
        return BlockModel(arms, np.log([self.fids(calls, arm) for arm in arms]))


@dataclass(frozen=True)
class Family:
    """All ways with one number of calls, judged together; `repeated`: the A/A arm, which is none of them."""

    calls: int
    found: Mapping[str, Verdict]
    repeated: Verdict


def read_found(folder: Path, sweep: Sweep) -> Found:
    """Read the scores of all blocks.

    Raises:
        UserError: a file that is missing, lacks a way, holds another block, or was made under other conditions.
    """
    scores: dict[int, dict[int, Mapping[str, Any]]] = {calls: {} for calls in sweep.calls}
    for calls, own in scores.items():
        for block in sweep.seeds:
            file = folder / f"calls_{calls}/block_{block}.json"
            figures = read_figures(file, BlockFigures)
            if (figures["block"], figures["calls"]) != (block, calls):
                raise UserError(f"{file}: holds block {figures['block']} by {figures['calls']} calls; score it again")
            if gone := [way for way in (*sweep.ways, sweep.repeated) if way not in figures["ways"]]:
                raise UserError(f"{file}: without {', '.join(gone)}; score it again")
            own[block] = figures
    refuse_other_conditions(folder, scores)
    return Found(sweep, scores)


def refuse_other_conditions(folder: Path, scores: Mapping[int, Mapping[int, Mapping[str, Any]]]) -> None:
    """Raise UserError where ways of a block were scored under other conditions: they cannot be compared."""
    for calls, own in scores.items():
        for block, one in own.items():
            first = next(iter(scores.values()))[block]["conditions"]
            conditions = one["conditions"]
            if other := sorted(
                key for key in conditions.keys() | first.keys() if conditions.get(key) != first.get(key)
            ):
                raise UserError(
                    f"{folder}: block {block} by {calls} calls differs in {', '.join(other)}; score it again"
                )


def family(found: Found, calls: int) -> Family:
    """Judge one number of calls: its ways against the control, by the variance of all within blocks."""
    sweep, blocks = found.sweep, found.blocks(calls)
    control = sweep.control.name
    judged = judge([blocks.contrast(way, control) for way in sweep.compared], sweep.delta)
    (again,) = judge([blocks.contrast(sweep.repeated, control)], sweep.delta)
    return Family(calls, dict(zip(sweep.compared, judged, strict=True)), again)


def first(found: Found, calls: int) -> str:
    """The way of the lowest FID, in the geometric mean over blocks; the control is tried again anyway."""
    return min(found.sweep.compared, key=lambda way: float(np.log(found.fids(calls, way)).mean()))


def read_again(folder: Path, named: Path, sweep: Sweep) -> list[Mapping[str, Any]]:
    """Read the scores of fresh blocks. Raises UserError where one holds other ways than those that came first."""
    firsts = read_figures(named, FirstFigures)["first"]
    files = [folder / f"block_{seed}.json" for seed in sweep.confirmation]
    read: list[Mapping[str, Any]] = [read_figures(file, AgainFigures) for file in files]
    for file, block in zip(files, read, strict=True):
        for calls in map(str, sweep.calls):
            ways = {place: one["way"] for place, one in block["calls"].get(calls, {}).items()}
            if ways != {FIRST: firsts.get(calls), CONTROL: sweep.control.name}:
                raise UserError(f"{file}: by {calls} calls holds {list(ways.values())}; score the block again")
    return read


def confirmed(found: Found, again: Sequence[Mapping[str, Any]]) -> dict[int, Verdict]:
    """Judge the way that came first against the control on fresh blocks; number of calls → finding."""
    verdicts = {}
    for calls in found.sweep.calls:
        pairs = [[block["calls"][str(calls)][place]["fid"] for place in (FIRST, CONTROL)] for block in again]
        (verdicts[calls],) = judge([once_more(found.blocks(calls), np.log(pairs))], found.sweep.delta)
    return verdicts
