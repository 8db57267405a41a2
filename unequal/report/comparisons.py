"""Methods of a run compared with their controls: differences, their intervals, verdicts and costs."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student_t

from unequal.artifacts.figures import Replicas
from unequal.measures.endpoints import Endpoint, Errors
from unequal.report.formatting import label, plus_minus
from unequal.report.results import Variant
from unequal.report.statements import Difference, Statement
from unequal.statistics.estimates import BlockModel
from unequal.statistics.power import Design, upper_deviation, visible_effect
from unequal.statistics.verdicts import judge


class Pairing(NamedTuple):
    """A method, its control, and what both must have spent alike for a comparison to be fair; None: nothing."""

    method: str
    control: str
    budget: str | None


#: Two budgets are the same where the larger exceeds the smaller by no more than this share.
SAME_BUDGET = 0.02
#: Endpoint on held-out draws (`unequal.measures.endpoints`) → what people call it.
HELD_OUT = {
    "loss_over_timesteps": "loss over timesteps",
    "loss_over_log_snr": "loss over log-SNR",
    "x0_loss_over_log_snr": "x0 error over log-SNR",
}
#: Field of a variant → what people call it.
COSTS = {"images_seen": "images", "training_flops": "training FLOPs", "sampling_flops": "sampling FLOPs"}
#: The first pairing of a method whose control was scored is its comparison.
PAIRINGS = (
    Pairing("stratified", "longer", "training_flops"),
    Pairing("mixed", "base", "images_seen"),
    Pairing("experts_unpruned", "longer", "images_seen"),
    Pairing("experts_pruned", "experts_unpruned", "images_seen"),
    Pairing("merged", "longer", "images_seen"),
    Pairing("merged", "base", None),
)
#: What training on does by itself: the measure of all that is tried with as much.
TRAINING_ON = Pairing("longer", "base", None)
LEVEL = 0.05
#: Fewer trainings do not tell their scatter.
LEAST = 3
#: Endpoint → δ in its logarithm, below which a method counts as the same as its control; settled before any run.
SAME_WITHIN = {"fid": 0.05, "loss_over_timesteps": 0.01, "loss_over_log_snr": 0.01, "x0_loss_over_log_snr": 0.01}


@dataclass(frozen=True)
class Comparison:
    """A method and its control.

    Attributes:
        fid: difference of FID; None where a FID of 0 has no logarithm.
        losses: key of HELD_OUT → difference of that mean; none where one of both was not profiled.
        budget: what both must have spent alike, a key of COSTS; None: nothing.
    """

    method: Variant
    control: Variant
    fid: Difference | None
    losses: Mapping[str, Difference]
    budget: str | None

    @property
    def comparable(self) -> bool:
        """Whether both spent the same of what must be the same."""
        ratio = 1.0 if self.budget is None else self.cost_ratio(self.budget)
        return max(ratio, 1 / ratio) <= 1 + SAME_BUDGET

    @property
    def disagree(self) -> bool:
        """Whether two endpoints are told apart in opposite directions."""
        found = [*([self.fid] if self.fid else []), *self.losses.values()]
        return len({one.log_ratio > 0 for one in found if one.told_apart}) > 1

    def cost_ratio(self, cost: str) -> float:
        """What the method spent, as a multiple of the control's."""
        return float(getattr(self.method, cost) / getattr(self.control, cost))

    def figures(self) -> dict[str, float]:
        """The numbers of the sentence."""
        endpoints = ({"fid": self.fid} if self.fid else {}) | dict(self.losses)
        numbers = {
            f"{key}_{name}_percent": value for key, one in endpoints.items() for name, value in one.percents().items()
        }
        return numbers | {f"{cost}_ratio": self.cost_ratio(cost) for cost in COSTS}

    def statement(self) -> Statement:
        """The sentence."""
        fids = " against ".join(plus_minus(one.fid, None) for one in (self.method, self.control))
        parts = [f"FID {fids}, {'without a relative difference' if self.fid is None else self.fid.text()}"]
        held_out = ", ".join(f"{HELD_OUT[key]} {one.text()}" for key, one in self.losses.items())
        parts += [f"held out: {held_out}"] if held_out else []
        parts += ["these disagree"] if self.disagree else []
        fair = "" if self.comparable else f"not comparable, as {COSTS[str(self.budget)]} differ; "
        text = f"against {label(self.control.name)}: {fair}{'; '.join(parts)}; {self.costs()}."
        return Statement(self.method.name, text, self.figures(), label(self.method.name), self.fid)

    def costs(self) -> str:
        """What it cost, beside the control."""
        ratios = {name: self.cost_ratio(cost) for cost, name in COSTS.items()}
        same = [name for name, ratio in ratios.items() if f"{ratio:.2f}" == "1.00"]
        if len(same) == len(ratios):
            return "for the same images and FLOPs"
        parts = [f"for as many {enumerated(same)}"] if same else []
        return ", ".join([*parts, *(f"{ratio:.2f} × the {name}" for name, ratio in ratios.items() if name not in same)])


def pairings(variants: Collection[str], recipes: Sequence[str]) -> list[Pairing]:
    """The comparisons that the variants of a run allow, one a method, in the order of the variants.

    Args:
        variants: those that were scored.
        recipes: further ones that train the base on; each is compared with the recipe `longer`.
    """
    further = [Pairing(recipe, "longer", "training_flops") for recipe in recipes if recipe != "longer"]
    found: dict[str, Pairing] = {}
    for one in (*PAIRINGS, *further):
        if one.control in variants:
            found.setdefault(one.method, one)
    return [found[name] for name in variants if name in found]


def in_order(comparisons: Sequence[Comparison], ranked: bool) -> list[Comparison]:
    """By the relative difference of FID, the lowest first, where they are ranked; what cannot be ranked comes last."""
    return sorted(comparisons, key=rank) if ranked else list(comparisons)


def rank(comparison: Comparison) -> float:
    """Where a comparison stands."""
    return comparison.fid.log_ratio if comparison.fid and comparison.comparable else math.inf


def enumerated(names: Sequence[str]) -> str:
    """As `a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def fid_differences(scores: Mapping[str, Sequence[float]], pairs: Sequence[tuple[str, str]]) -> list[Difference | None]:
    """Differences of FID of pairs of variants, resolved by the scatter over sampling seeds.

    Every variant starts from the same noise at a seed: seeds are complete blocks (`statistics.estimates`), whose
    scatter all variants that are compared tell together, since two seeds of a pair alone tell next to nothing.

    Args:
        scores: variant → FID at each sampling seed, the same seeds for all.
        pairs: names of variant and control.

    Returns:
        A difference a pair; None where one has a FID that is not above 0 and therefore no logarithm.
    """
    sound = [name for name in dict.fromkeys(sum(pairs, ())) if min(scores[name]) > 0]
    logs = {name: np.log(scores[name]) for name in sound}
    repeated = len(sound) > 1 and len(logs[sound[0]]) > 1
    blocks = BlockModel(tuple(sound), np.stack(list(logs.values()))) if repeated else None
    return [fid_difference(logs, blocks, *pair) if set(pair) <= set(sound) else None for pair in pairs]


def fid_difference(logs: Mapping[str, np.ndarray], blocks: BlockModel | None, method: str, control: str) -> Difference:
    """Difference of ln FID; its resolution is unknown where there was one seed, and nothing scattered."""
    if blocks is None:
        return Difference(float(logs[method].mean() - logs[control].mean()), None)
    found = blocks.contrast(method, control)
    return Difference(found.difference, float(student_t.ppf(1 - LEVEL / 2, found.freedom)) * found.error)


def loss_differences(
    endpoints: Mapping[str, Endpoint], errors: Mapping[str, Errors], method: str, control: str
) -> dict[str, Difference]:
    """Differences of all endpoints of two models, by name; none where one of them was not profiled.

    Args:
        endpoints: see `unequal.measures.endpoints`.
        errors: model → errors on held-out draws, the same draws for all.
        method, control: names of models.
    """
    if not {method, control} <= errors.keys():
        return {}
    changes = {name: one.change(errors[control], errors[method]) for name, one in endpoints.items()}
    return {name: difference_of(*change) for name, change in changes.items()}


def difference_of(change: float, stderr: float) -> Difference:
    """A relative change and its standard error as a difference of logarithms; draws are many, so t is normal."""
    return Difference(float(np.log1p(change)), float(norm.ppf(1 - LEVEL / 2)) * stderr / (1 + change))


def are_judged(replicas: Replicas) -> bool:
    """Whether there are trainings enough for words."""
    return len(replicas.seeds) >= LEAST


def judged(replicas: Replicas, endpoint: str, pairs: Sequence[tuple[str, str]]) -> list[Difference | None]:
    """Differences of an endpoint with their words, all pairs judged together; seeds are blocks, models their arms.

    Args:
        replicas: three or more.
        endpoint: a key of SAME_WITHIN.
        pairs: names of method and control.

    Returns:
        A difference a pair; None where one was not measured, or has a value that is not above 0 and has no logarithm.
    """
    values = {name: found for name, found in replicas.endpoints[endpoint].items() if min(found) > 0}
    asked = [pair for pair in pairs if set(pair) <= values.keys()]
    if not asked:
        return [None] * len(pairs)
    arms = tuple(dict.fromkeys(sum(asked, ())))
    blocks = BlockModel(arms, np.log([values[name] for name in arms]))
    bounds = [seen(blocks, len(asked))] * len(asked)
    found = judge([blocks.contrast(*pair) for pair in asked], SAME_WITHIN[endpoint], bounds)
    told = {
        pair: Difference(float(np.log1p(one.change)), float(np.log1p(one.high) - np.log1p(one.change)), one.word)
        for pair, one in zip(asked, found, strict=True)
    }
    return [told.get(pair) for pair in pairs]


def seen(blocks: BlockModel, comparisons: int) -> float:
    """The difference that as many trainings show in four of five runs, by the 80 % upper bound of their own scatter."""
    design = Design(len(blocks.arms), blocks.blocks, comparisons)
    return visible_effect(design, upper_deviation(blocks.pooled_variance**0.5, blocks.freedom))


def judged_losses(replicas: Replicas, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Difference]]:
    """The same of all endpoints but FID: pair by pair, endpoint → difference; none of those that were not measured."""
    found = {name: judged(replicas, name, pairs) for name in SAME_WITHIN if name != "fid"}
    return [
        {name: one for name, ones in found.items() if (one := ones[number]) is not None} for number in range(len(pairs))
    ]


def mean_fids(replicas: Replicas) -> Mapping[str, float]:
    """Variant → geometric mean of its FID over the trainings, to which the differences belong; 0 where one is 0."""
    return {
        name: float(np.exp(np.log(found).mean())) if min(found) > 0 else 0.0
        for name, found in replicas.endpoints["fid"].items()
    }
