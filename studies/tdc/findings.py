"""What plans for experts have come to, read once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unequal.files import read_json
from unequal.reporting.tables import label
from unequal.reporting.verdicts import Evidence, paired
from unequal.settings.plan import Plan, SeveralGroups

#: The paper's method, and what belongs to every question.
SHARED = "shared"
TDC, UNPRUNED, LONGER = (f"{SHARED}/{name}" for name in ("tdc", "unpruned", "longer"))
#: Names of plans that say too little.
NAMES = {TDC: "TDC", UNPRUNED: "TDC without pruning", LONGER: "base, trained on"}
#: How people read the shared plans' names within others, as in budgets/tdc_half.
WORDS = {"tdc": "TDC", "unpruned": "TDC without pruning", "longer": "base, trained on"}


@dataclass(frozen=True)
class PlanOutcome:
    """A plan with what came of it, one entry a training seed.

    Attributes:
        name: as in params.yaml.
        plan: its settings.
        experts: contents of results/experts/<plan>/seed_<s>.json.
        trials: contents of results/trials/<plan>/seed_<s>.json.
    """

    name: str
    plan: Plan
    experts: Sequence[Mapping[str, Any]]
    trials: Sequence[Mapping[str, Any]]

    @property
    def label(self) -> str:
        """The name as people read it."""
        return NAMES.get(self.name) or plan_label(self.name, self.plan)

    @property
    def fids(self) -> list[float]:
        """FID of every training seed."""
        return [one["fid_mean"] for one in self.trials]

    @property
    def fid(self) -> float:
        """Mean FID over training seeds."""
        return float(np.mean(self.fids))

    def mean(self, figure: str) -> float:
        """Mean of a figure of the trained experts over training seeds."""
        return float(np.mean([one[figure] for one in self.experts]))

    @property
    def groups(self) -> int:
        """Into how many groups timesteps were divided."""
        return len(self.experts[0]["groups"])

    @property
    def min_ratio(self) -> float:
        """k; of one group, its limit."""
        chosen = self.plan.groups
        return chosen.min_ratio if isinstance(chosen, SeveralGroups) else chosen.ratio

    @property
    def unsampled(self) -> int:
        """How many groups get no step of sampling."""
        return sum(steps == 0 for steps in self.trials[0]["sampling_steps_per_expert"])


@dataclass(frozen=True)
class Found:
    """All that a question's report is made from.

    Attributes:
        question: its name.
        outcomes: name → outcome, the shared plans first, then the question's in the order of params.yaml.
        base: FID and costs of the base, the content of results/fid/base.json.
        base_training: the content of results/metrics/train_base.json.
    """

    question: str
    outcomes: Mapping[str, PlanOutcome]
    base: Mapping[str, Any]
    base_training: Mapping[str, Any]

    @property
    def own(self) -> list[PlanOutcome]:
        """The question's plans."""
        return [one for one in self.outcomes.values() if not one.name.startswith(f"{SHARED}/")]

    def __getitem__(self, name: str) -> PlanOutcome:
        """The outcome of a shared plan by its whole name, of one of the question's by its last part."""
        return self.outcomes.get(name) or self.outcomes[f"{self.question}/{name}"]

    def has(self, name: str) -> bool:
        """Whether the question holds a plan of that last part."""
        return f"{self.question}/{name}" in self.outcomes

    @property
    def base_fid(self) -> float:
        """FID of the base from which all start."""
        return float(self.base["fid_mean"])

    def gain(self, better: str, worse: str) -> Evidence:
        """By how much the FID of one plan lies below that of another, in pairs of training seeds."""
        pairs = zip(self[better].fids, self[worse].fids, strict=True)
        return paired([theirs - ours for ours, theirs in pairs])

    def gain_on_base(self, name: str) -> Evidence:
        """By how much a plan's FID lies below that of the one base, over the plan's training seeds."""
        return paired([self.base_fid - fid for fid in self[name].fids])

    def share(self, outcome: PlanOutcome) -> float:
        """Multiply–accumulates of a step, mean over timesteps, of the base's."""
        return float(outcome.mean("macs_a_step") / self.base_training["macs"])


def plan_label(name: str, plan: Plan) -> str:
    """A plan's name as people read it; where one number tells it apart, that number."""
    question, own = name.split("/")
    if question == "ratios":
        return f"k = {plan.groups.min_ratio:g}" if isinstance(plan.groups, SeveralGroups) else label(own)
    if question == "groups":
        return f"{plan.groups.count} groups" if isinstance(plan.groups, SeveralGroups) else label(own)
    first, _, rest = own.partition("_")
    return f"{WORDS[first]}, {label(rest)}" if first in WORDS and rest else label(own)


def read_found(
    find: Callable[[str], Path], question: str, plans: Mapping[str, Plan], order: Sequence[str], seeds: Sequence[int]
) -> Found:
    """Read what the shared plans and those of a question have come to.

    Args:
        find: turns a path into one that exists.
        question: whose plans are read.
        plans: name → settings.
        order: names of all plans.
        seeds: that each was carried out from.

    Raises:
        UserError: something is missing or damaged.
    """
    outcomes = {}
    for name in order:
        if name.split("/")[0] in (SHARED, question):
            files = [f"{name}/seed_{seed}.json" for seed in seeds]
            experts = [read_json(find(f"results/experts/{file}")) for file in files]
            trials = [read_json(find(f"results/trials/{file}")) for file in files]
            outcomes[name] = PlanOutcome(name, plans[name], experts, trials)
    return Found(
        question,
        outcomes,
        read_json(find("results/fid/base.json")),
        read_json(find("results/metrics/train_base.json")),
    )
