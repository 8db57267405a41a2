"""Claims about what timesteps contribute to enlarged images, each as a verdict (paper 1, sections 2.1 and 2.2)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unequal.contribution import posterior
from unequal.reporting.claims import EQUAL_COMPUTE, budget_rule, incomparable
from unequal.reporting.contribution import SYMBOLS, Pair, Quality, Training, mean_and_error
from unequal.reporting.verdicts import HELD, NOT_HELD, SEVERAL, UNDECIDED, Evidence, Verdict, decide, tally
from unequal.schedule import NoiseSchedule

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


def rule(trainings: Sequence[Training], what: str) -> str:
    """The rule of claims about images."""
    return f"{what}, {PAIRED.format(n=len(trainings[0].unreplaced.psnr))}; {SEVERAL}"


def range_claim(claim: RangeClaim, trainings: Sequence[Training]) -> Verdict:
    """Replacing x0 in one range gives a higher PSNR than in another."""
    evidence = [evidence_of(one.ranges[claim.better].psnr, one.ranges[claim.worse].psnr) for one in trainings]
    figures = {
        f"{name}_{pair[0]}_{pair[1]}": mean_of(trainings, pair, name)
        for pair in (claim.better, claim.worse)
        for name in Quality._fields
    }
    return Verdict(
        claim.key,
        1,
        f"Replacing x0 within {list(claim.better)} mends more than within {list(claim.worse)}",
        decide(evidence),
        tally(evidence) | figures,
        "; ".join(quality_text(trainings, pair) for pair in (claim.better, claim.worse)),
        rule(trainings, "difference of PSNR"),
    )


def nearest_range_is_best(trainings: Sequence[Training]) -> Verdict:
    """Replacing x0 within [1, 10] gives the highest PSNR of all ranges tried."""
    others = [pair for pair in trainings[0].ranges if pair != BEST]
    rival = max(others, key=lambda pair: mean_of(trainings, pair, "psnr"))
    evidence = [evidence_of(one.ranges[BEST].psnr, one.ranges[rival].psnr) for one in trainings]
    inside = rival[0] <= BEST[0] and BEST[1] <= rival[1]
    return Verdict(
        "nearest_range_is_best",
        1,
        f"Of all ranges tried, replacing x0 within {list(BEST)} mends the most",
        decide(evidence),
        tally(evidence) | {f"psnr_{a}_{b}": mean_of(trainings, (a, b), "psnr") for a, b in trainings[0].ranges},
        f"{quality_text(trainings, BEST)}; the best other range: {quality_text(trainings, rival)}"
        f"{f', which holds all of {list(BEST)}' if inside else ''}",
        rule(trainings, "difference of PSNR from the best other range"),
    )


def colours_come_from_late_steps(trainings: Sequence[Training], tried: Sequence[RangeClaim]) -> Verdict:
    """The ranges nearer the data take more of the colour shift away."""
    evidence = [
        evidence_of(one.ranges[claim.worse].colour_shift, one.ranges[claim.better].colour_shift)
        for claim in tried
        for one in trainings
    ]
    shown = [
        f"{mean_of(trainings, claim.better, 'colour_shift'):.3g} for {list(claim.better)} against "
        f"{mean_of(trainings, claim.worse, 'colour_shift'):.3g} for {list(claim.worse)}"
        for claim in tried
    ]
    left = float(np.mean([one.unreplaced.colour_shift for one in trainings]))
    return Verdict(
        "colours_come_from_late_steps",
        1,
        "Hue deviations are made near the data: replacing x0 there leaves a smaller colour shift",
        decide(evidence),
        tally(evidence) | {"unreplaced": left},
        f"{', '.join(shown)}; {left:.3g} with nothing replaced",
        rule(trainings, "difference of colour shift between each two ranges that are compared above"),
    )


def windows_matter_more_near_the_data(trainings: Sequence[Training]) -> Verdict:
    """Of two neighbouring windows, the one nearer the data mends more."""
    pairs = list(zip(list(trainings[0].windows)[:-1], list(trainings[0].windows)[1:], strict=True))
    evidence = [
        evidence_of(one.windows[nearer].psnr, one.windows[farther].psnr)
        for one in trainings
        for nearer, farther in pairs
    ]
    means = [
        f"{np.mean([one.windows[pair].psnr.mean() for one in trainings]):.1f} dB in {list(pair)}"
        for pair in trainings[0].windows
    ]
    return Verdict(
        "windows_matter_more_near_the_data",
        None,
        "Of windows of one width, the nearer to the data, the more replacing x0 mends",
        decide(evidence),
        tally(evidence),
        ", ".join(means),
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


def shifts_less(claim: PredictionClaim, trainings: Sequence[Training]) -> Verdict:
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


def verdicts(trainings: Sequence[Training], schedule: NoiseSchedule) -> list[Verdict]:
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


def mean_of(trainings: Sequence[Training], pair: Pair, figure: str) -> float:
    """Mean of a figure over images and trainings, with x0 replaced in a range."""
    return float(np.mean([getattr(one.ranges[pair], figure) for one in trainings]))


def quality_text(trainings: Sequence[Training], pair: Pair) -> str:
    """What is left with x0 replaced in a range, as a sentence's part."""
    psnr, shift = (mean_of(trainings, pair, figure) for figure in Quality._fields)
    return f"{list(pair)} gives {psnr:.1f} dB and a colour shift of {shift:.3g}"
