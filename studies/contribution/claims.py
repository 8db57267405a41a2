"""Claims about what timesteps contribute to enlarged images, each as a verdict (paper 1, sections 2.1 and 2.2)."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from studies.contribution.findings import SYMBOLS, ModelRuns, Pair, Quality, by_prediction, mean_and_error
from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule
from unequal.reporting.claims import EQUAL_COMPUTE, budget_rule, incomparable
from unequal.reporting.verdicts import HELD, NOT_HELD, SEVERAL, UNDECIDED, Evidence, Verdict, decide, tally

#: A coefficient of x0 that is no longer small, and the last timestep at which the paper sees one.
SMALL, LAST_LARGE = 0.1, 15
PAIRED = "paired by image and noise, against 2 standard errors over {n} images; one comparison a training"


class RangeClaim(NamedTuple):
    """A claim of paper 1 that replacing x0 in one range mends more than in another."""

    key: str
    better: Pair
    worse: Pair


RANGE_CLAIMS = (
    RangeClaim("lower_half_matters_more", (1, 500), (500, 1000)),
    RangeClaim("below_100_matters_more", (10, 100), (100, 500)),
)
BEST = (1, 10)


class PredictionClaim(NamedTuple):
    """A claim that one prediction shifts colours less than another; `paper` is None for ours."""

    key: str
    paper: int | None
    better: str
    worse: str


PREDICTION_CLAIMS = (
    PredictionClaim("v_shifts_less_than_epsilon", 1, "v_prediction", "epsilon"),
    PredictionClaim("x0_shifts_less_than_epsilon", None, "sample", "epsilon"),
)


def evidence_of(better: np.ndarray, worse: np.ndarray) -> Evidence:
    """By how much the first figures [n] exceed the second ones, image by image."""
    return Evidence(*mean_and_error(better - worse))


def rule(trainings: Sequence[ModelRuns], what: str) -> str:
    """The rule of claims about images."""
    return f"{what}, {PAIRED.format(n=len(trainings[0].unreplaced.psnr))}; {SEVERAL}"


def range_claim(claim: RangeClaim, trainings: Sequence[ModelRuns]) -> Verdict:
    """Replacing x0 in one range gives a higher PSNR than in another."""
    evidence = [evidence_of(one.ranges[claim.better].psnr, one.ranges[claim.worse].psnr) for one in trainings]
    return Verdict(
        claim.key,
        1,
        f"Replacing x0 within {list(claim.better)} mends more than within {list(claim.worse)}",
        decide(evidence),
        tally(evidence) | left(trainings, (claim.better, claim.worse)),
        f"PSNR in dB: {versus(trainings, claim.better, claim.worse, 'psnr')}",
        rule(trainings, "difference of PSNR"),
    )


def nearest_range_is_best(trainings: Sequence[ModelRuns]) -> Verdict:
    """Replacing x0 within [1, 10] gives the highest PSNR of all ranges tried."""
    others = [pair for pair in trainings[0].ranges if pair != BEST]
    rival = max(others, key=lambda pair: np.mean([one.ranges[pair].psnr.mean() for one in trainings]))
    evidence = [evidence_of(one.ranges[BEST].psnr, one.ranges[rival].psnr) for one in trainings]
    inside = rival[0] <= BEST[0] and BEST[1] <= rival[1]
    return Verdict(
        "nearest_range_is_best",
        1,
        f"Of all ranges tried, replacing x0 within {list(BEST)} mends the most",
        decide(evidence),
        tally(evidence) | left(trainings, tuple(trainings[0].ranges)),
        f"the best other range is {list(rival)}{f', which holds all of {list(BEST)}' if inside else ''}; "
        f"PSNR in dB: {versus(trainings, BEST, rival, 'psnr')}",
        rule(trainings, "difference of PSNR from the best other range"),
    )


def colours_come_from_late_steps(trainings: Sequence[ModelRuns], tried: Sequence[RangeClaim]) -> Verdict:
    """The ranges nearer the data take more of the colour shift away."""
    evidence = [
        evidence_of(one.ranges[claim.worse].colour_shift, one.ranges[claim.better].colour_shift)
        for claim in tried
        for one in trainings
    ]
    shown = "; ".join(versus(trainings, claim.better, claim.worse, "colour_shift") for claim in tried)
    return Verdict(
        "colours_come_from_late_steps",
        1,
        "Hue deviations are made near the data: replacing x0 there leaves a smaller colour shift",
        decide(evidence),
        tally(evidence) | left(trainings, tuple(pair for claim in tried for pair in (claim.better, claim.worse))),
        f"colour shift in 8-bit units: {shown}",
        rule(trainings, "difference of colour shift between each two ranges that are compared above"),
    )


def windows_matter_more_near_the_data(trainings: Sequence[ModelRuns]) -> Verdict:
    """Of two neighbouring windows, the one nearer the data mends more."""
    neighbours = list(pairwise(trainings[0].windows))
    evidence = [
        evidence_of(one.windows[nearer].psnr, one.windows[farther].psnr)
        for one in trainings
        for nearer, farther in neighbours
    ]
    shown = []
    for name, found in by_prediction(trainings).items():
        means = np.mean([[run.psnr.mean() for run in one.windows.values()] for one in found], axis=0)
        shown.append(f"{SYMBOLS[name]} {', '.join(f'{mean:.1f}' for mean in means)}")
    return Verdict(
        "windows_matter_more_near_the_data",
        None,
        "Of windows of one width, the nearer to the data, the more replacing x0 mends",
        decide(evidence),
        tally(evidence),
        f"PSNR in dB from {list(neighbours[0][0])} to {list(neighbours[-1][1])}: {'; '.join(shown)}",
        rule(trainings, "difference of PSNR between neighbouring windows").replace(
            "one comparison a training", "one comparison a training and pair of neighbours"
        ),
    )


def x0_matters_in_few_steps(schedule: NoiseSchedule) -> Verdict:
    """The posterior's mean takes a notable share of x0 at the last timesteps only (Fig. 3b)."""
    coefficient = posterior(schedule).x0
    last = int((coefficient >= SMALL).nonzero().max()) + 1
    return Verdict(
        "x0_matters_in_few_steps",
        1,
        f"The coefficient of x0 is small but for timesteps up to {LAST_LARGE}",
        HELD if last <= LAST_LARGE else NOT_HELD,
        {"last_above_a_tenth": last}
        | {f"x0_at_{t}": float(coefficient[t - 1]) for t in (2, LAST_LARGE, LAST_LARGE + 1)},
        f"{SMALL:g} or more up to timestep {last} of {schedule.timesteps} (schedule {schedule.name}), counted from 1",
        f"counted: held where the coefficient of x0 is {SMALL:g} or more at no timestep beyond {LAST_LARGE}",
    )


def shifts_less(claim: PredictionClaim, trainings: Sequence[ModelRuns]) -> Verdict:
    """One prediction shifts colours less than another, with nothing replaced, trial by trial."""
    found = {(one.prediction, one.trial): one for one in trainings}
    trials = dict.fromkeys(one.trial for one in trainings)
    pairs = [(found[claim.better, trial], found[claim.worse, trial]) for trial in trials]
    evidence = [evidence_of(two.unreplaced.colour_shift, one.unreplaced.colour_shift) for one, two in pairs]
    apart = max(EQUAL_COMPUTE.difference(*pair) for pair in pairs)
    shown = [
        f"{one.unreplaced.colour_shift.mean():.3g} against {two.unreplaced.colour_shift.mean():.3g}"
        for one, two in pairs
    ]
    unequal = incomparable(EQUAL_COMPUTE, apart)
    return Verdict(
        claim.key,
        claim.paper,
        f"Predicting {SYMBOLS[claim.better]} shifts colours less than predicting {SYMBOLS[claim.worse]}",
        UNDECIDED if unequal else decide(evidence),
        tally(evidence) | {"training_flops_differ_percent": 100 * apart},
        f"{unequal}colour shift {', '.join(shown)}",
        rule(trainings, "difference of colour shift with nothing replaced") + budget_rule(EQUAL_COMPUTE),
    )


def verdicts(trainings: Sequence[ModelRuns], schedule: NoiseSchedule) -> list[Verdict]:
    """Verdicts on all claims whose ranges and predictions were tried."""
    first, predictions = trainings[0], {one.prediction for one in trainings}
    tried = [claim for claim in RANGE_CLAIMS if {claim.better, claim.worse} <= first.ranges.keys()]
    found = [range_claim(claim, trainings) for claim in tried]
    if BEST in first.ranges and len(first.ranges) > 1:
        found.append(nearest_range_is_best(trainings))
    if tried:
        found.append(colours_come_from_late_steps(trainings, tried))
    found.append(x0_matters_in_few_steps(schedule))
    compared = [claim for claim in PREDICTION_CLAIMS if {claim.better, claim.worse} <= predictions]
    found += [shifts_less(claim, trainings) for claim in compared]
    return found + ([windows_matter_more_near_the_data(trainings)] if len(first.windows) > 1 else [])


def left(trainings: Sequence[ModelRuns], pairs: Sequence[Pair]) -> dict[str, float]:
    """What is left with x0 replaced in these ranges, by name: means over the images and trainings of a prediction."""
    return {
        f"{figure}_{name}_{pair[0]}_{pair[1]}": mean_of(found, pair, figure)
        for name, found in by_prediction(trainings).items()
        for pair in pairs
        for figure in Quality._fields
    }


def versus(trainings: Sequence[ModelRuns], better: Pair, worse: Pair, figure: str) -> str:
    """What two ranges leave, prediction by prediction, and what was there with nothing replaced."""
    shown = [
        f"{SYMBOLS[name]} {mean_of(found, better, figure):.3g} against {mean_of(found, worse, figure):.3g} "
        f"({mean_of(found, None, figure):.3g})"
        for name, found in by_prediction(trainings).items()
    ]
    return f"{list(better)} against {list(worse)} (nothing replaced): {', '.join(shown)}"


def mean_of(trainings: Sequence[ModelRuns], pair: Pair | None, figure: str) -> float:
    """Mean of a figure over images and trainings, with x0 replaced in a range or nowhere."""
    runs = [one.unreplaced if pair is None else one.ranges[pair] for one in trainings]
    return float(np.mean([getattr(run, figure) for run in runs]))
