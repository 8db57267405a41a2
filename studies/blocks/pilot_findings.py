"""What the trainings of a pilot have come to, as it lies in results/pilot, and what results/pilot.json says of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from studies.blocks.piloting import Arms, Trainings
from studies.blocks.settings import Blocks, Pilot
from unequal.artifacts.figures import Figures, read_figures
from unequal.errors import UserError


class Costs(Figures):
    """What a training of the pilot has cost."""

    images: PositiveInt
    training_seconds: NonNegativeFloat
    measuring_seconds: NonNegativeFloat


class Training(Figures):
    """A training of the pilot; `half` are its endpoints at half of its images."""

    endpoints: dict[str, PositiveFloat]
    costs: Costs


class Base(Training):
    """results/pilot/base/block_<seed>.json."""

    block: int
    half: dict[str, PositiveFloat]


class Tried(Training):
    """A try of an arm."""

    lr: PositiveFloat
    half: dict[str, PositiveFloat] | None = None


class Arm(Figures):
    """results/pilot/<arm>/block_<seed>.json."""

    arm: str
    block: int
    tries: dict[str, Tried]


class Promise(Figures):
    """What results/pilot.json says of an endpoint, as far as a study is judged by it."""

    upper_deviation: NonNegativeFloat
    whole_upper_deviation: NonNegativeFloat
    deviation: NonNegativeFloat
    freedom: PositiveInt
    slope_per_doubling: float
    images_worth_delta: PositiveFloat | None
    needed: PositiveFloat
    visible_effect: PositiveFloat
    blocks_needed: PositiveInt | None


class BestTry(Figures):
    """What results/pilot.json says of an arm's tries."""

    best: str
    tried: dict[str, dict[str, float]]


class PilotFigures(Figures):
    """results/pilot.json."""

    share: PositiveFloat
    endpoints: dict[str, Promise]
    tries: dict[str, BestTry]
    block_seconds: NonNegativeFloat
    study_seconds: NonNegativeFloat


def read_bases(folder: Path, plan: Blocks, pilot: Pilot) -> Trainings:
    """The pilot's bases. Raises UserError where a file lacks what is read of it, or is of another training."""
    files = [(seed, folder / f"base/block_{seed}.json") for seed in pilot.seeds]
    found = [read_figures(file, Base) for _, file in files]
    for (seed, file), one in zip(files, found, strict=True):
        refuse_other(file, one["block"] == seed)
        require_endpoints(file, plan, one["endpoints"], one["half"])
    return found


def read_arms(folder: Path, plan: Blocks, pilot: Pilot, begin_fresh: bool) -> Arms:
    """The tries of the pilot's arms, one a block; `begin_fresh` where they have no bases, and halves themselves.

    Raises UserError as `read_bases`, or where others were tried.
    """
    return {
        arm: [read_tries(folder, plan, pilot, arm, seed, begin_fresh) for seed in pilot.seeds] for arm in pilot.arms
    }


def read_tries(folder: Path, plan: Blocks, pilot: Pilot, arm: str, seed: int, begin_fresh: bool) -> dict[str, Any]:
    """Those of an arm in a block."""
    file = folder / f"{arm}/block_{seed}.json"
    found = read_figures(file, Arm)
    tried: dict[str, Any] = found["tries"]
    refuse_other(file, (found["arm"], found["block"], {*tried}) == (arm, seed, {*pilot.tries}))
    for one in tried.values():
        require_endpoints(file, plan, one["endpoints"], *([one.get("half") or {}] if begin_fresh else []))
    return {label: tried[label] for label in pilot.tries}


def refuse_other(file: Path, is_right: bool) -> None:
    """Raise UserError where a file tells of another training than its name, or of other tries than the settings."""
    if not is_right:
        raise UserError(f"{file}: tells of another arm, block or tries than the pilot asks for; make it again")


def require_endpoints(file: Path, plan: Blocks, *measured: Mapping[str, float]) -> None:
    """Raise UserError where one of the study's endpoints was not measured."""
    if gone := [name for name in plan.endpoints if any(name not in one for one in measured)]:
        raise UserError(f"{file}: endpoint '{gone[0]}' is missing; make it again")
