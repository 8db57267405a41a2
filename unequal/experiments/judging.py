"""Verdicts on the planned contrasts of an experiment, from the table of its trainings alone.

The unit is a training; y is the logarithm of an endpoint, of which lower is better; the trainings of a seed are a block
(`unequal.evaluation.blocks`). All contrasts of an endpoint are one family.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtr, stdtrit
from scipy.stats import chi2

from unequal.errors import UserError
from unequal.evaluation.blocks import contrast, degrees_of_freedom

BETTER, WORSE, SAME, UNDECIDED = "better", "worse", "the same within δ", "undecided"
#: Largest share of experiments in which the contrasts of an endpoint make a false claim, and power of the least effect.
LEVEL, POWER = 0.05, 0.8


@dataclass(frozen=True)
class Judgement:
    """A planned contrast by one endpoint.

    Attributes:
        difference, error, freedom: in ln(endpoint), variant less control; its standard error and degrees of freedom.
        low, high: 95 % interval of the difference, for this contrast alone.
        p_difference, p_same: Holm's p of the tests against no difference, and against one of δ or more.
        visible: the difference that so many trainings detect in four of five experiments.
        verdict: `better`, `worse`, `the same within δ` or `undecided`.
    """

    endpoint: str
    variant: str
    control: str
    difference: float
    error: float
    freedom: int
    low: float
    high: float
    p_difference: float
    p_same: float
    visible: float
    verdict: str


def judge(
    rows: Sequence[Mapping[str, Any]], contrasts: Sequence[tuple[str, str]], deltas: Mapping[str, float]
) -> list[Judgement]:
    """Judge all contrasts by all endpoints.

    Args:
        rows: one per training, with `variant`, `seed` and the endpoints.
        contrasts: names of variant and control.
        deltas: endpoint → δ in ln(endpoint), set before the experiment.

    Raises:
        UserError: a variant lacks a training or a positive endpoint.
    """
    return [one for endpoint, delta in deltas.items() for one in family(rows, contrasts, endpoint, delta)]


def family(
    rows: Sequence[Mapping[str, Any]], contrasts: Sequence[tuple[str, str]], endpoint: str, delta: float
) -> list[Judgement]:
    """Judge all contrasts by one endpoint."""
    variants = list(dict.fromkeys(name for pair in contrasts for name in pair))
    values = logarithms(rows, variants, endpoint)
    freedom, places = degrees_of_freedom(values), [list(map(variants.index, pair)) for pair in contrasts]
    estimates = [tuple(map(float, contrast(values, *pair))) for pair in places]
    different = holm([two_sided(difference, error, freedom) for difference, error in estimates])
    same = holm([equivalence(difference, error, freedom, delta) for difference, error in estimates])
    half, visible = float(stdtrit(freedom, 1 - LEVEL / 2)), visible_effect(freedom, len(contrasts))
    return [
        Judgement(
            endpoint,
            *pair,
            difference,
            error,
            freedom,
            difference - half * error,
            difference + half * error,
            p_difference,
            p_same,
            visible * error,
            verdict(difference, p_difference, p_same),
        )
        for pair, (difference, error), p_difference, p_same in zip(contrasts, estimates, different, same, strict=True)
    ]


def logarithms(rows: Sequence[Mapping[str, Any]], variants: Sequence[str], endpoint: str) -> np.ndarray:
    """Table of ln(endpoint), [variants, seeds]."""
    values = {(one["variant"], str(one["seed"])): float(one[endpoint] or "nan") for one in rows}
    seeds = dict.fromkeys(seed for _, seed in values)
    for variant in variants:
        if bad := [seed for seed in seeds if not 0 < values.get((variant, seed), np.nan) < np.inf]:
            raise UserError(f"{endpoint} of variant '{variant}', seed {bad[0]}: missing, or no positive number")
    return np.log([[values[variant, seed] for seed in seeds] for variant in variants])


def verdict(difference: float, p_difference: float, p_same: float) -> str:
    """Verdict of both tests; a difference that is shown and shown to be smaller than δ is the same within δ."""
    if p_same < LEVEL:
        return SAME
    if p_difference < LEVEL:
        return BETTER if difference < 0 else WORSE
    return UNDECIDED


def two_sided(difference: float, error: float, freedom: int) -> float:
    """Two-sided p of Student's test against no difference."""
    if error == 0:
        return 0.0 if difference else 1.0
    return 2 * float(stdtr(freedom, -abs(difference) / error))


def equivalence(difference: float, error: float, freedom: int, delta: float) -> float:
    """Larger p of the two one-sided tests against a difference ≤ −δ and ≥ δ."""
    if error == 0:
        return 0.0 if abs(difference) < delta else 1.0
    return float(stdtr(freedom, (abs(difference) - delta) / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: the smallest times m, the next times m − 1, and so on, nondecreasing, at most 1."""
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)
    adjusted = np.empty_like(p)
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return adjusted.tolist()


def visible_effect(freedom: int, contrasts: int) -> float:
    """The least effect that is detected with a power of 80 %, in standard errors, by Holm's first step.

    The scatter is taken at the upper end of its 80 % interval: it is known from the same trainings.
    """
    threshold = stdtrit(freedom, 1 - LEVEL / 2 / contrasts) + stdtrit(freedom, POWER)
    return float(threshold * np.sqrt(freedom / chi2.ppf(1 - POWER, freedom)))
