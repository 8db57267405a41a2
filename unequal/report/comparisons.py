"""Every method of a run beside its fair control: what came out, how finely that was measured, and what it cost."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from unequal.report.statements import Difference, Statement
from unequal.report.tables import Variant, label, plus_minus

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


class Pairing(NamedTuple):
    """A method, its control, and what both must have spent alike for a comparison to be fair; None: nothing."""

    method: str
    control: str
    budget: str | None


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
