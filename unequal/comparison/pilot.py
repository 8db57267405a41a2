"""Judgement of a pilot: scatter of trainings, differences that a comparison can detect, and its duration."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from unequal.comparison.settings import LEAST, Comparison, Pilot
from unequal.statistics.estimates import BlockModel
from unequal.statistics.power import Design, upper_deviation, visible_effect

#: Largest number of blocks that a pilot proposes.
MOST_BLOCKS = 40
#: Largest number of doublings of the images by which δ is expressed as a factor of images.
MOST_DOUBLINGS = 10
#: Work whose seconds are recorded.
WORK = ("training", "measuring")

#: Trainings: figures, one per block. Arms: variant → one mapping per block, try → figures.
Trainings = Sequence[Mapping[str, Any]]
Arms = Mapping[str, Trainings]


def pilot_document(plan: Comparison, pilot: Pilot, bases: Trainings, arms: Arms) -> dict[str, Any]:
    """Judgement of a pilot, as JSON.

    Args:
        plan: the study.
        pilot: the pilot's settings.
        bases: figures of the pilot's bases, measured at half and at the end of their training; empty where variants
            start from fresh weights, since these are measured at both points themselves.
        arms: variant → one mapping per block, try → figures.
    """
    cells = good_tries(plan, arms)
    paths = bases or [one for cell in cells for one in cell]
    return {
        "seeds": list(pilot.seeds),
        "share": pilot.share,
        "endpoints": {
            name: (scattered := scatter(name, cells))
            | slope(name, paths, delta)
            | {"delta": delta}
            | promise(plan, plan.needed(name), scattered)
            for name, delta in plan.judged.items()
        },
        "tries": {arm: tries(blocks, plan) for arm, blocks in arms.items()},
        **seconds(plan, pilot, bases, [one for blocks in arms.values() for block in blocks for one in block.values()]),
    }


def good_tries(plan: Comparison, arms: Arms) -> list[Trainings]:
    """Trainings of every try that ends within 2δ of its variant's best, by the first endpoint.

    Other tries, for example with a learning rate that is far too high, are not used by a study and scatter differently.
    If fewer than two tries are good, all tries are taken.
    """
    first, delta = next(iter(plan.judged.items()))
    every: dict[str, dict[str, Trainings]] = {
        arm: {label: [block[label] for block in blocks] for label in blocks[0]} for arm, blocks in arms.items()
    }
    ends = {arm: {label: mean_log(first, cell) for label, cell in cells.items()} for arm, cells in every.items()}
    good = [
        cell
        for arm, cells in every.items()
        for label, cell in cells.items()
        if ends[arm][label] <= min(ends[arm].values()) + 2 * delta
    ]
    return good if len(good) > 1 else [cell for cells in every.values() for cell in cells.values()]


def mean_log(endpoint: str, trainings: Trainings) -> float:
    """Mean of ln(endpoint)."""
    return fmean(float(np.log(one["endpoints"][endpoint])) for one in trainings)


def scatter(endpoint: str, cells: Sequence[Trainings]) -> dict[str, Any]:
    """Standard deviation of a training in ln(endpoint), with its degrees of freedom and its 80 % upper bound.

    `deviation` is that of the residuals after the effects of tries and blocks are removed, as in a study's verdicts.
    `whole_deviation` includes the effects of blocks, and has one degree of freedom fewer than there are blocks.
    """
    values = np.log([[one["endpoints"][endpoint] for one in cell] for cell in cells])
    study = BlockModel(tuple(map(str, range(len(cells)))), values)
    within, whole = study.pooled_variance**0.5, float(values.var(1, ddof=1).mean() ** 0.5)
    return {
        "deviation": within,
        "freedom": study.freedom,
        "upper_deviation": upper_deviation(within, study.freedom),
        "whole_deviation": whole,
        "whole_upper_deviation": upper_deviation(whole, values.shape[1] - 1),
    }


def slope(endpoint: str, paths: Trainings, delta: float) -> dict[str, Any]:
    """Change of ln(endpoint) over the last doubling of a training's images, and the factor of images worth δ.

    The factor is None where it takes more than ten doublings.
    """
    doubling = fmean(float(np.log(one["endpoints"][endpoint] / one["half"][endpoint])) for one in paths)
    worth = 2 ** (delta / -doubling) if -doubling * MOST_DOUBLINGS > delta else None
    return {"slope_per_doubling": doubling, "images_worth_delta": worth}


def promise(plan: Comparison, asked: float, scatter: Mapping[str, float]) -> dict[str, Any]:
    """Effect that the planned comparison detects in four of five cases, and the blocks that detect what it needs.

    The least sensitive kind of test counts. `blocks_needed` is None where more than 40 blocks are needed.
    """

    def visible(blocks: int) -> float:
        return max(promised(plan, blocks, scatter).values())

    planned = promised(plan, len(plan.seeds), scatter)
    # More blocks detect smaller effects, so bisection finds the smallest sufficient number.
    counts = range(LEAST, MOST_BLOCKS + 1)
    place = bisect_left(counts, -asked, key=lambda blocks: -visible(blocks))
    return {
        "needed": asked,
        "visible_effect": max(planned.values()),
        "visible_by_test": planned,
        "testable": max(planned.values()) <= asked,
        "blocks_needed": counts[place] if place < len(counts) else None,
    }


def tries(blocks: Trainings, plan: Comparison) -> dict[str, Any]:
    """Learning rate and mean ln(endpoints) of a variant in each try, and the best try by the first endpoint."""
    tried = {
        label: {"lr": blocks[0][label]["lr"]}
        | {name: mean_log(name, [block[label] for block in blocks]) for name in plan.judged}
        for label in blocks[0]
    }
    first = next(iter(plan.judged))
    return {"best": min(tried, key=lambda label: tried[label][first]), "tried": tried}


def seconds(plan: Comparison, pilot: Pilot, bases: Trainings, arms: Trainings) -> dict[str, Any]:
    """Seconds of a block and of the whole study, one stage after another: full trainings, and measuring.

    A variant that was not piloted is assumed to cost the mean of those that were.
    """

    def whole(trainings: Trainings) -> float:
        """Seconds of a full training, extrapolated from the pilot's shorter ones, and of measuring it."""
        if not trainings:
            return 0.0
        trained, measured = (fmean(one["costs"][f"{what}_seconds"] for one in trainings) for what in WORK)
        return trained / pilot.share + measured

    block = whole(bases) + len(plan.arms.all) * whole(arms)
    return {"block_seconds": block, "study_seconds": len(plan.seeds) * block}


#: Test → the figure of a pilot that bounds its scatter: within blocks, or including the effects of blocks.
DEVIATIONS = {"pooled": "upper_deviation", "paired": "upper_deviation", "welch": "whole_upper_deviation"}


def promised(plan: Comparison, blocks: int, scatter: Mapping[str, float]) -> dict[str, float]:
    """Test → the smallest difference in ln(endpoint) that a comparison with it detects in four of five studies.

    Welch's test has at least the degrees of freedom of one of its variants, so it detects this difference or less.
    """
    arms = {"pooled": max(2, len(plan.pooled_arms))}
    return {
        test: visible_effect(Design(arms.get(test, 2), blocks, len(plan.compared)), scatter[DEVIATIONS[test]])
        for test in dict.fromkeys(one.test for one in plan.compared)
    }
