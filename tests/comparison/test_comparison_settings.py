"""Plans of studies in blocks: what is impossible is refused in one line."""

import re
from pathlib import Path
from typing import Any

import pytest
from blocks_data import DESIGN
from params_files import edited
from specs import recipe_of

from unequal.comparison.params import ComparisonParams
from unequal.comparison.settings import AS_IT_IS, Comparison, Pilot, PilotArms, Try, arm_seed, shortened
from unequal.errors import UserError
from unequal.settings.training import PowerAverage

#: No arm goes on with what a trained network does not bring, either.
PRETRAINED: dict[str, Any] = {"network.pretrained": "runs/base", "pilot.tries": {"own": {}}} | {
    f"plans.{arm}.recipe.warm_start": {} for arm in ("joint", "joint_again")
}
STUDIES = Path(__file__).parents[2] / "studies"
STUDY, CURRICULA, TINY = (
    STUDIES / "experts/params.yaml",
    STUDIES / "curricula/params.yaml",
    Path(__file__).with_name("tiny") / "params.yaml",
)
SPEED = {"baseline": "plain", "delta": 0.2}


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"comparison.seeds": [0, 0]}, "comparison.seeds: [0, 0] names one twice"),
        ({"comparison.seeds": [0]}, "comparison.seeds: [0]; allowed: 2 or more blocks"),
        ({"comparison.repeated.arm": "joint"}, "comparison.comparisons: 'joint' is compared with itself; allowed:"),
        ({"comparison.repeated.arm": "none"}, "comparison.comparisons: 'none' is no variant; there is: joint,"),
        ({"comparison.comparisons": [{"arm": "snr", "control": "joint"}]}, "comparison.arms: 'joint_fresh' is in no"),
        (
            {"comparison.comparisons": []},
            "comparison.comparisons: name some, or a control of all variants, and not both",
        ),
        ({"pilot.seeds": [4, 5]}, "pilot.seeds: 4 is a block of the comparison; allowed: others"),
        ({"recipes.base.keep_state": False}, "plans.joint.recipe.warm_start: weights last, moments carried needs"),
        (
            {"recipes.base.keep_state": False}
            | {f"plans.{arm}.recipe.warm_start": {} for arm in ("joint", "joint_again")},
            "pilot.tries.carried, of plans.joint.warm_start: weights last, moments",
        ),
        ({"pilot.arms.continued": ["none"]}, "pilot.arms.continued: 'none' is no such variant; there is: joint"),
        (
            {"pilot.arms.continued": ["joint"], "pilot.tries": {"own": {}}},
            "pilot.arms: one variant with one try has no",
        ),
        ({"pilot.chosen": {"snr": "best"}}, "pilot.chosen.snr: 'best' is no try; there is: carried, "),
        ({"pilot.chosen": {"joint": "fresh", "joint_again": "carried"}}, "pilot.chosen.joint_again: 'carried'"),
        (
            {"recipes.base.keep_state": False, "pilot.arms.continued": ["snr"], "pilot.tries.carried_half": {}}
            | {"pilot.tries.carried": {"warm_start": {"moments": "carried"}}, "pilot.tries.carried_double": {}}
            | {f"plans.{arm}.recipe.warm_start": {} for arm in ("joint", "joint_again")}
            | {"pilot.chosen": {"timesteps": "carried"}},
            "plans.timesteps.recipe.warm_start: weights averaged, moments carried needs",
        ),
        ({"plans.other": {}}, "plans.other"),
        (PRETRAINED, "network.pretrained: 'runs/base'; blocks begin with fresh weights: null"),
        ({"profile.floor": "all"}, "profile.floor: all; variants are compared without one: none"),
        ({"plans.snr.groups.kind": "excess_loss"}, "plans.snr.groups.kind: 'excess_loss' needs a floor"),
        ({"plans.snr.groups.count": 600}, "plans.snr: of 600 groups, number 2 from the data end is empty"),
        ({"plans.snr.recipe.prediction": "v_prediction"}, "plans.snr: recipe.prediction: 'v_prediction'; the base's"),
    ],
)
def test_impossible_plans_are_refused_in_one_line(tmp_path, edits, complaint):
    path = edited(STUDY, {"pilot.chosen": {}} | edits, tmp_path)
    refused_by_line(path, complaint)


@pytest.mark.parametrize(
    ("settings", "edits", "complaint"),
    [
        (
            TINY,
            {"comparison.batch_sizes": {"none": 32}},
            "comparison.batch_sizes: 'none' is no variant; there is: plain",
        ),
        (TINY, {"comparison.batch_sizes": {"experts": 32}}, "comparison.batch_sizes: 'experts' is a plan; allowed"),
        (TINY, {"comparison.batch_sizes": {"small": 2000}}, "comparison.batch_sizes.small: 2000; recipes.small sees"),
        (TINY, {"recipes.mixed.images": 640}, "recipes.mixed.images: 640; three heads are compared over 20 periods of"),
        (TINY, {"comparison.batch_sizes": {"mixed": 128}}, "recipes.mixed.images: 1280; three heads are compared over"),
        (TINY, {"comparison.arms.bases": []}, "comparison.arms.bases: []; allowed with these plans: ['base']"),
        (TINY, {"comparison.confirm.seeds": [20]}, "comparison.confirm.seeds: [20]; allowed: none, or 2 or more"),
        (TINY, {"comparison.confirm.seeds": [1, 20]}, "comparison.confirm.seeds: 1 is a judged block; allowed:"),
        (TINY, {"comparison.confirm.by": "x0_loss_over_log_snr"}, "comparison.confirm.by: 'x0_loss_over_log_snr' is"),
        (
            TINY,
            {"comparison.speed": SPEED | {"baseline": "small"}},
            "pilot.arms: must hold 'small', comparison.speed.baseline",
        ),
        (
            TINY,
            {"comparison.speed": SPEED},
            "comparison.speed: variants that are plans store no snapshots; allowed: null",
        ),
        (CURRICULA, {"recipes.uniform.snapshots": [60000]}, "recipes.uniform.snapshots: [60000]; for comparison.speed"),
        (CURRICULA, {"recipes.gaussian.snapshots": [400000]}, "recipes.gaussian: images and snapshots must be those"),
        (
            CURRICULA,
            {"evaluation.samples": 100, "evaluation.kid_subset": 10, "extractor.features": 64},
            "evaluation.samples: snapshots are scored by half of them, 50, which is fewer than extractor.features 64",
        ),
    ],
)
def test_batches_heads_speed_and_confirmations_that_cannot_be_are_refused(tmp_path, settings, edits, complaint):
    path = edited(settings, edits, tmp_path)
    refused_by_line(path, complaint)


def refused_by_line(path: Path, complaint: str) -> None:
    with pytest.raises(UserError) as refusal:
        ComparisonParams.read(path)
    lines = str(refusal.value).splitlines()
    assert re.match(rf"{re.escape(str(path))}:\d+: {re.escape(complaint)}", lines[0]), refusal.value
    assert all(re.match(rf"{re.escape(str(path))}:\d+: ", line) for line in lines)


def test_arms_that_share_no_variance_are_left_out_of_the_pool():
    assert Comparison.model_validate(DESIGN, strict=False).pooled_arms == ("control", "again", "lower", "alike")


def test_every_arm_of_a_block_has_draws_of_its_own():
    seeds = {arm_seed(block, arm) for block in range(50) for arm in ("joint", "joint_again", "snr", "base")}
    assert len(seeds) == 200
    assert arm_seed(0, "joint") == arm_seed(0, "joint")


def test_an_arm_is_trained_by_the_try_that_was_chosen_for_it():
    tries = {"own": Try(), "half": Try(lr=5e-4)}
    pilot = Pilot(
        arms=PilotArms(fresh=("a", "b"), continued=()), tries=tries, seeds=(0, 1), share=0.5, chosen={"b": "half"}
    )
    assert (pilot.tried("b"), pilot.tried("a")) == (tries["half"], AS_IT_IS)
    others = pilot.model_copy(update={"chosen": {"b": "own", "others": "half"}})
    assert others.tried("a") == others.tried("entered later") == tries["half"]
    assert others.tried("b") == Try()


def test_a_shortened_recipe_keeps_its_shape():
    whole = recipe_of(
        images=1000, snapshots=(500,), optimizer={"betas": (0.9, 0.999), "warmup_images": 40, "decay": "cosine"}
    )
    short = shortened(whole, 0.25, Try(lr=2e-3))
    assert (short.images, short.snapshots, short.optimizer.warmup_images) == (250, (125,), 10)
    assert short.optimizer.lr == pytest.approx(2e-3)
    assert shortened(whole, 1.0) == whole
    average = PowerAverage(kind="power", width=0.1)
    assert shortened(whole, 1.0, Try(average=average)) == whole.model_copy(update={"average": average})
    own = whole.model_copy(update={"average": average})
    assert shortened(own, 1.0) == own


def test_a_control_of_all_arms_is_compared_with_each_but_its_repetition():
    settings = {name: value for name, value in DESIGN.items() if name != "comparisons"} | {"control": "control"}
    found = Comparison.model_validate(settings, strict=False)
    assert [one.arms for one in found.compared] == [(arm, "control") for arm in ("lower", "alike", "other")]
    assert {one.test for one in found.compared} == {"pooled"}
