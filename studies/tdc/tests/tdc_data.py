"""A made-up question of plans whose answers are known."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from studies.tdc.findings import Found, PlanOutcome
from studies.tdc.params import Params
from unequal.experts.plan import totals
from unequal.settings.plan import Plan, SeveralGroups

SEEDS = (0, 1, 2)
T = 1000
BASE_MACS, BASE_IMAGES, BASE_FID = 1000, 640, 1.0
#: By how much FIDs of seeds lie off their plan's mean.
SCATTER = (-0.01, 0.0, 0.01)
#: Candidates' losses: a round 0 of two importance methods, then rounds of three that improve.
BANK = [0.9, 0.8, *(1.0, 0.9, 0.95), *(0.85, 0.75, 0.8), *(0.7, 0.65, 0.6)]


def bank(shift: float) -> list[dict[str, Any]]:
    """The bank of one seed's proxy."""
    rounds = [0, 0, *(number for number in (1, 2, 3) for _ in range(3))]
    places = [0, 1, *(place for _ in range(3) for place in range(3))]
    return [
        {"round": number, "candidate": place, "proposer": "tpe" if number else "taylor", "loss": loss + shift}
        for number, place, loss in zip(rounds, places, BANK, strict=True)
    ]


def outcome(name: str, plan: Plan, fid: float) -> PlanOutcome:
    """A plan whose seeds scatter about a FID."""
    chosen = plan.groups
    count = chosen.count if isinstance(chosen, SeveralGroups) else 1
    edges = [T * number // count for number in range(count + 1)]
    ratio = chosen.min_ratio if isinstance(chosen, SeveralGroups) else chosen.ratio
    share = 1.0 if plan.pruning is None else (1 + ratio) / 2
    groups = [
        {
            "group": number,
            "first": first,
            "last": after - 1,
            "limit_ratio": share,
            "macs": share * BASE_MACS,
            "parameters": 100,
            "stride": 1,
            "images_seen": plan.recipe.images // 100 // count,
            "training_flops": 3 * share * BASE_MACS * (plan.recipe.images // 100 // count),
            "inherited_images": BASE_IMAGES if plan.start == "base" else 0,
            "inherited_flops": 3 * BASE_MACS * BASE_IMAGES if plan.start == "base" else 0,
            "measuring_flops": 0,
            "training_seconds": 9.0,
        }
        for number, (first, after) in enumerate(pairwise(edges))
    ]

    def experts(shift: float) -> dict[str, Any]:
        searched = {"seconds": 1.0, "search_flops": 7, "bank": bank(shift)}
        whole = [one | {"pruning": searched if plan.pruning else None} for one in groups]
        return totals(whole) | {"groups": whole}

    trials = [
        {"seed": seed, "fid_mean": fid + off, "kid_mean": 0.1, "sampling_steps_per_expert": [5] * (count - 1) + [0]}
        for seed, off in zip(SEEDS, SCATTER, strict=True)
    ]
    return PlanOutcome(name, plan, [experts(off) for off in SCATTER], trials)


def settings() -> Params:
    """The study's own params.yaml."""
    return Params.read(Path(__file__).parents[1] / "params.yaml")


def found(question: str, fids: dict[str, float]) -> Found:
    """A question in which plans have these FIDs, by the last part of their names; others have that of the base."""
    plans = settings().plans
    made = {
        name: outcome(name, plan, fids.get(name.split("/")[1], BASE_FID))
        for name, plan in plans.items()
        if name.split("/")[0] in ("shared", question)
    }
    training = {"macs": BASE_MACS, "parameters": 100, "images_seen": BASE_IMAGES, "training_flops": 1920}
    return Found(question, made, {"fid_mean": BASE_FID}, training)
