"""What a pilot tells beforehand: how trainings scatter, what a study of them can see, and how long it will take."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from studies.blocks.settings import LEAST, Pilot
from studies.blocks.settings import Blocks as Study
from unequal.evidence.blocks import Blocks
from unequal.evidence.power import Design, upper_deviation, visible_effect

#: More blocks than this are not asked for.
MOST_BLOCKS = 40
#: Nor is a difference told as a factor of images that takes more doublings of them.
MOST_DOUBLINGS = 10
#: What takes seconds.
WORK = ("training", "measuring")

#: Figures of trainings, one a block; of an arm by the try, one a block.
Trainings = Sequence[Mapping[str, Any]]
Arms = Mapping[str, Trainings]


def pilot_document(plan: Study, pilot: Pilot, bases: Trainings, arms: Arms) -> dict[str, Any]:
    """All that a pilot tells of a study, as JSON.

    Args:
        plan: of the study.
        pilot: its settings.
        bases: figures of the pilot's bases, measured at half and at the end of their training; none where arms begin
            with fresh weights and are measured so themselves.
        arms: arm → a block's trainings by try.
    """
    cells = [[block[label] for block in found] for found in arms.values() for label in found[0]]
    paths = bases or [one for cell in cells for one in cell]
    return {
        "seeds": list(pilot.seeds),
        "share": pilot.share,
        "endpoints": {
            name: scatter(name, cells) | slope(name, paths, delta) | promise(name, cells, plan, delta)
            for name, delta in plan.judged.items()
        },
        "tries": {arm: tries(found, plan) for arm, found in arms.items()},
        **seconds(plan, pilot, bases, [one for cell in cells for one in cell]),
    }


def scatter(endpoint: str, cells: Sequence[Trainings]) -> dict[str, Any]:
    """Standard deviation of a training in ln(endpoint), with its degrees of freedom and its 80 % upper bound.

    It is what is left when arms with their tries, and blocks, have had their share: what a study is judged by, too.
    """
    values = np.log([[one["endpoints"][endpoint] for one in cell] for cell in cells])
    study = Blocks(tuple(map(str, range(len(cells)))), values)
    deviation = study.pooled_variance**0.5
    upper = upper_deviation(deviation, study.freedom)
    return {"deviation": deviation, "freedom": study.freedom, "upper_deviation": upper}


def slope(endpoint: str, paths: Trainings, delta: float) -> dict[str, Any]:
    """Change of ln(endpoint) over the last doubling of a training's images, and which factor of them is worth δ.

    None is told that takes more than ten doublings.
    """
    doubling = fmean(float(np.log(one["endpoints"][endpoint] / one["half"][endpoint])) for one in paths)
    worth = 2 ** (delta / -doubling) if -doubling * MOST_DOUBLINGS > delta else None
    return {"slope_per_doubling": doubling, "images_worth_delta": worth}


def promise(endpoint: str, cells: Sequence[Trainings], plan: Study, delta: float) -> dict[str, Any]:
    """What the planned study shows in four of five cases, and how many blocks would show δ; null: more than 40."""
    bound = scatter(endpoint, cells)["upper_deviation"]
    arms, comparisons = max(2, len(plan.pooled_arms)), len(plan.compared)

    def visible(blocks: int) -> float:
        return visible_effect(Design(arms, blocks, comparisons), bound)

    planned = visible(len(plan.all_seeds))
    # More blocks see smaller effects, so the fewest that see δ are found by halving.
    counts = range(LEAST, MOST_BLOCKS + 1)
    place = bisect_left(counts, -delta, key=lambda blocks: -visible(blocks))
    enough = counts[place] if place < len(counts) else None
    return {"delta": delta, "visible_effect": planned, "sees_delta": planned <= delta, "blocks_for_delta": enough}


def tries(found: Trainings, plan: Study) -> dict[str, Any]:
    """Learning rate and mean ln(endpoints) of an arm in each try, and the best one by the first endpoint."""
    tried = {
        label: {"lr": found[0][label]["lr"]}
        | {name: fmean(float(np.log(block[label]["endpoints"][name])) for block in found) for name in plan.judged}
        for label in found[0]
    }
    first = next(iter(plan.judged))
    return {"best": min(tried, key=lambda label: tried[label][first]), "tried": tried}


def seconds(plan: Study, pilot: Pilot, bases: Trainings, arms: Trainings) -> dict[str, Any]:
    """Seconds an image of a training here, and of the whole study on one thread: trained in full, and measured."""

    def whole(trainings: Trainings) -> float:
        """A training of the study, of which those of the pilot are a share, and its measuring."""
        if not trainings:
            return 0.0
        trained, measured = (fmean(one["costs"][f"{what}_seconds"] for one in trainings) for what in WORK)
        return trained / pilot.share + measured

    everything = [*bases, *arms]
    spent = sum(one["costs"]["training_seconds"] for one in everything)
    return {
        "training_image_seconds": spent / sum(one["costs"]["images"] for one in everything),
        "study_seconds": len(plan.seeds) * (whole(bases) + len(plan.arms) * whole(arms)),
    }
