"""Plans: what does not go together is refused."""

from typing import Any

import pytest
from pydantic import ValidationError
from specs import recipe_of

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.errors import UserError
from unequal.experts.plan import check_plan
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe
from unequal.timesteps.groups import planned_groups

OPTIMIZER = {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 100, "decay": "constant"}
RECIPE: dict[str, Any] = recipe_of(images=4000).model_dump(mode="json") | {
    "sampler": {"density": "slot"},
    "optimizer": OPTIMIZER,
}
SNR = {"kind": "snr", "count": 4, "min_ratio": 0.5}
INTERLEAVED = {"kind": "interleaved", "count": 4}
SCHEDULE = NoiseSchedule.linear(1000)


def plan(**choices: Any) -> Plan:
    facts = {"groups": SNR, "pruning": None, "start": "base", "recipe": RECIPE} | choices
    return Plan.model_validate(facts, strict=False)


def optimizer(**changes: Any) -> dict[str, Any]:
    return RECIPE | {"optimizer": OPTIMIZER | changes}


def base(**changes: Any) -> Recipe:
    return Recipe.model_validate(RECIPE | {"sampler": {"density": "uniform"}} | changes, strict=False)


@pytest.mark.parametrize(
    ("choices", "complaint"),
    [
        ({"from_images": 5, "start": "scratch"}, "from_images: 5 is for start 'base'; allowed: null"),
        ({"recipe": optimizer(decay_share=0.5)}, "decay_share: 0.5 has no meaning for decay 'constant'; allowed: 1.0"),
    ],
)
def test_what_does_not_go_together_is_refused(choices: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        plan(**choices)
    assert complaint in str(refusal.value)


@pytest.mark.parametrize(
    ("choices", "batch", "complaint"),
    [
        ({"from_images": 5}, 64, "from_images: 5 is no snapshot of the base; it keeps [2000]"),
        ({"groups": INTERLEAVED | {"count": 1001}}, 1, "1001 interleaved groups of 1000 timesteps; allowed: 2 … 1000"),
        ({}, 1024, "recipe.images: 4000 leave 1000 to a group; a batch takes 1024"),
        # The group next to the data has 31 timesteps, of which the first two lie far apart in log-SNR.
        (
            {"recipe": {**RECIPE, "sampler": {"density": "slot", "intervals": 30}}},
            64,
            "sampler.intervals: 30 of equal log-SNR, of which number",
        ),
        ({"recipe": optimizer(warmup_images=1001)}, 64, "recipe.images: 4000 leave 1000 to a group; the warm-up takes"),
        # The data end has 31 of 1000 timesteps.
        ({"allocation": "timesteps"}, 128, "recipe.images: 4000 leave 124 to a group; a batch takes 128"),
    ],
)
def test_what_cannot_be_carried_out_is_said_beforehand(choices: dict[str, Any], batch: int, complaint: str) -> None:
    with pytest.raises(UserError) as refusal:
        check_plan(plan(**choices), SCHEDULE, base(snapshots=[2000]), batch)
    assert str(refusal.value).startswith(complaint)


def test_a_boundary_is_where_wan_hands_over_and_both_models_may_be_as_large() -> None:
    found = planned_groups({"kind": "boundary", "log_snr": -3.892, "ratio": 0.5}.items(), Flow(1000))
    assert [(one.range.first, one.range.last, one.limit_ratio) for one in found] == [(0, 874, 0.5), (875, 999, 0.5)]
