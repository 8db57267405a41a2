"""Comparison of a run's methods with their controls: differences, their intervals, verdicts and costs."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student_t

from unequal.evaluation.blocks import contrast, degrees_of_freedom
from unequal.evaluation.loss_profile import Endpoint, Errors
from unequal.report.formatting import label
from unequal.report.results import Variant
from unequal.report.statements import Difference, Statement


class Pairing(NamedTuple):
    """A method, its control, and the cost that must be equal for a fair comparison; None: any."""

    method: str
    control: str
    budget: str | None


#: Two budgets are equal if the larger exceeds the smaller by at most this share.
SAME_BUDGET = 0.02
#: Endpoint on held-out draws (`unequal.evaluation.loss_profile`) → its name in text.
HELD_OUT = {
    "loss_over_timesteps": "loss over timesteps",
    "loss_over_log_snr": "loss over log-SNR",
    "x0_loss_over_log_snr": "x0 error over log-SNR",
}
#: Field of a variant → its name in text.
COSTS = {"images_seen": "images", "training_flops": "training FLOPs", "sampling_flops": "sampling FLOPs"}
#: Possible pairings; each method uses its first pairing whose control was scored.
PAIRINGS = (
    Pairing("stratified", "longer", "training_flops"),
    Pairing("mixed", "base", "images_seen"),
    Pairing("experts_unpruned", "longer", "images_seen"),
    Pairing("experts_pruned", "experts_unpruned", "images_seen"),
)
#: Further training of the base without any method, which sets the scale for methods with the same budget.
FURTHER_TRAINING = Pairing("longer", "base", None)
LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """A method and its control.

    Attributes:
        fid: difference of FID; None where a FID of 0 has no logarithm.
        losses: key of HELD_OUT → difference of that mean; empty: one of the two models was not profiled.
        budget: the cost that must be equal, a key of COSTS; None: any.
    """

    method: Variant
    control: Variant
    fid: Difference | None
    losses: Mapping[str, Difference]
    budget: str | None

    @property
    def comparable(self) -> bool:
        """Say whether the budgets are equal."""
        ratio = 1.0 if self.budget is None else self.cost_ratio(self.budget)
        return max(ratio, 1 / ratio) <= 1 + SAME_BUDGET

    @property
    def disagree(self) -> bool:
        """Say whether two endpoints differ in opposite directions."""
        found = [*([self.fid] if self.fid else []), *self.losses.values()]
        return len({one.log_ratio > 0 for one in found if one.distinguishable}) > 1

    def cost_ratio(self, cost: str) -> float:
        """The method's cost as a multiple of the control's."""
        return float(getattr(self.method, cost) / getattr(self.control, cost))

    def figures(self) -> dict[str, float]:
        """The numbers of the sentence."""
        endpoints = ({"fid": self.fid} if self.fid else {}) | dict(self.losses)
        numbers = {
            f"{key}_{name}_percent": value for key, one in endpoints.items() for name, value in one.percents().items()
        }
        return numbers | {f"{cost}_ratio": self.cost_ratio(cost) for cost in COSTS}

    def statement(self) -> Statement:
        """Statement of FID, agreement with the losses, and costs; the table of variants has the numbers."""
        change = "no relative change of a FID of 0" if self.fid is None else f"FID {self.fid.text()}"
        disagree = " FID and losses disagree." if self.disagree else ""
        fair = "" if self.comparable else f"not comparable, {COSTS[str(self.budget)]} differ; "
        text = f"against {label(self.control.name)}: {fair}{change}, {self.costs()}.{disagree}"
        return Statement(self.method.name, text, self.figures(), label(self.method.name))

    def costs(self) -> str:
        """Costs relative to the control's, as the end of a sentence."""
        ratios = {name: f"{self.cost_ratio(cost):.2f}" for cost, name in COSTS.items()}
        equal = [name for name, ratio in ratios.items() if ratio == "1.00"]
        if len(equal) == len(ratios):
            return "at equal images and FLOPs"
        parts = [f"at equal {' and '.join(equal)}"] if equal else []
        return ", ".join([*parts, *(f"{ratio} × the {name}" for name, ratio in ratios.items() if name not in equal)])


def pairings(variants: Collection[str], recipes: Sequence[str]) -> list[Pairing]:
    """Comparisons that a run allows, one per method, in the order of the variants.

    Args:
        variants: names of scored variants.
        recipes: recipes that train the base further; each is compared with the recipe `longer`.
    """
    further = [Pairing(recipe, "longer", "training_flops") for recipe in recipes if recipe != "longer"]
    found: dict[str, Pairing] = {}
    for one in (*PAIRINGS, *further):
        if one.control in variants:
            found.setdefault(one.method, one)
    return [found[name] for name in variants if name in found]


def in_order(comparisons: Sequence[Comparison], ranked: bool) -> list[Comparison]:
    """Sort comparisons by the change of FID if they are ranked, the lowest first; those without a rank come last."""

    def rank(one: Comparison) -> float:
        return one.fid.log_ratio if one.fid and one.comparable else math.inf

    return sorted(comparisons, key=rank) if ranked else list(comparisons)


def fid_differences(scores: Mapping[str, Sequence[float]], pairs: Sequence[tuple[str, str]]) -> list[Difference | None]:
    """Differences of FID of pairs of variants, with intervals from the scatter over sampling seeds.

    All variants start from the same noise at a seed, so seeds are complete blocks (`unequal.evaluation.blocks`). The
    scatter is estimated from all compared variants together, since the few seeds of one pair hardly show it.

    Args:
        scores: variant → FID at each sampling seed, the same seeds for all.
        pairs: names of variant and control.

    Returns:
        One difference per pair; None where a FID is not above 0 and therefore has no logarithm.
    """
    sound = [name for name in dict.fromkeys(sum(pairs, ())) if min(scores[name]) > 0]
    logs = {name: np.log(scores[name]) for name in sound}
    repeated = len(sound) > 1 and len(logs[sound[0]]) > 1
    return [fid_difference(logs, repeated, *pair) if set(pair) <= set(sound) else None for pair in pairs]


def fid_difference(logs: Mapping[str, np.ndarray], repeated: bool, method: str, control: str) -> Difference:
    """Difference of ln FID; its interval is unknown for a single seed."""
    if not repeated:
        return Difference(float(logs[method].mean() - logs[control].mean()), None)
    values = np.stack(list(logs.values()))
    difference, error = contrast(values, *map(list(logs).index, (method, control)))
    return Difference(float(difference), float(student_t.ppf(1 - LEVEL / 2, degrees_of_freedom(values))) * float(error))


def loss_differences(
    endpoints: Mapping[str, Endpoint], errors: Mapping[str, Errors], method: str, control: str
) -> dict[str, Difference]:
    """Differences of all endpoints of two models, by name; empty if one of them was not profiled.

    Args:
        endpoints: name → endpoint, as in `unequal.evaluation.loss_profile`.
        errors: model → errors on held-out draws, the same draws for all.
        method, control: names of models.
    """
    if not {method, control} <= errors.keys():
        return {}
    changes = {name: one.change(errors[control], errors[method]) for name, one in endpoints.items()}
    return {name: difference_of(*change) for name, change in changes.items()}


def difference_of(change: float, stderr: float) -> Difference:
    """Convert a relative change and its standard error to a difference of logarithms.

    The number of draws is large, so the interval uses the normal distribution in place of Student's t.
    """
    return Difference(float(np.log1p(change)), float(norm.ppf(1 - LEVEL / 2)) * stderr / (1 + change))
