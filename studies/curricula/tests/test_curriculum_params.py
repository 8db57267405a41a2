"""The study's settings are sound, and what could not be told of speed is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from params_files import DELETE, edited

from studies.curricula.params import Params
from studies.experts.params import Params as Plans
from unequal.comparison.settings import shortened
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"


def test_arms_differ_from_uniform_in_what_is_asked_about() -> None:
    recipes = yaml.safe_load(STUDY.read_text(encoding="utf-8"))["recipes"]
    changed = {name: {key for key in one if one[key] != recipes["uniform"][key]} for name, one in recipes.items()}
    assert changed == {
        "uniform": set(),
        "uniform_again": set(),
        "uniform_whole": set(),
        "uniform_quadruple": set(),
        "noise_rate": {"sampler"},
        "gaussian": {"sampler"},
        "momentum_decay": {"optimizer"},
        "change_aware": {"sampler", "loss_weight"},
        "easy_to_hard": {"sampler"},
    }


def test_every_arm_is_held_against_uniform_timesteps_at_its_own_rate_too() -> None:
    params = Params.read(STUDY)
    chosen = params.pilot.chosen
    same = {one.arm for one in params.blocks.compared if chosen[one.arm] == chosen[one.control]}
    assert same == {one.arm for one in params.blocks.compared}


def test_in_a_pilot_curricula_are_shortened_with_their_trainings() -> None:
    recipes = Params.read(STUDY).recipes
    assert shortened(recipes["noise_rate"], 0.25).sampler.model_dump()["ramp_images"] == 60_000
    assert shortened(recipes["easy_to_hard"], 0.25).sampler.model_dump()["patience_images"] == 320


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"blocks.speed.by": ["kid"]}, "blocks.speed.by.0: "),
        ({"blocks.speed.baseline": "none"}, "blocks: speed.baseline: 'none' is no arm; there is: uniform, uniform_aga"),
        (
            {"recipes.uniform.snapshots": [60000, 120000]},
            "recipes.uniform.snapshots: [60000, 120000]; for blocks.speed one or more must lie in the second half of",
        ),
        (
            {"recipes.gaussian.snapshots": [240000, 400000]},
            "recipes.gaussian: images and snapshots must be those of 'uniform' for blocks.speed: 480000 and [60000,",
        ),
        (
            {"evaluation.samples": 126, "evaluation.kid_subset": 50},
            "evaluation.samples: snapshots are scored by half of them, 63, which is fewer than extractor.features 64",
        ),
        ({"pilot.arms": ["gaussian", "noise_rate"]}, "pilot.arms: must hold 'uniform', blocks.speed.baseline"),
        (
            {"pilot.chosen.gaussian": DELETE},
            "pilot.chosen.gaussian: missing, as is 'others'; name the try that it is trained by:",
        ),
        ({"effects": {"kid": 0.1}}, "effects.kid"),
        ({"blocks.speed": None}, "effects.images_for_fid: no endpoint of blocks; there is: fid,"),
        ({"pilot.tries.half.warm_start": {"weights": "last"}}, "pilot.tries.half.warm_start: weights last"),
    ],
)
def test_what_tells_no_speed_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
    assert "\n" not in str(refusal.value)


def test_plans_keep_no_snapshots(tmp_path: Path) -> None:
    plans = Path(__file__).parents[2] / "experts/params.yaml"
    path = edited(plans, {"blocks.speed": {"baseline": "joint", "delta": 0.1}}, tmp_path)
    with pytest.raises(UserError, match=r"blocks\.speed: arms that are plans keep no snapshots; allowed: null"):
        Plans.read(path)
