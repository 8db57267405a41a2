"""The league's settings are sound, its recipes differ in what is asked about alone, and bad ones are a line."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from params_files import edited

from studies.league.params import Params
from unequal.comparison.settings import Contrast
from unequal.errors import UserError
from unequal.timesteps.draws import LowDiscrepancy

STUDY = Path(__file__).parents[1]
NETWORKS, OTHERS = ("unet", "dit"), ("logit_normal", "info_noise", "adaptive")


@pytest.mark.parametrize("network", NETWORKS)
def test_recipes_differ_from_the_control_in_what_is_asked_about_alone(network: str) -> None:
    recipes = yaml.safe_load((STUDY / network / "params.yaml").read_text(encoding="utf-8"))["recipes"]
    changed = {key for one in recipes.values() for key in one if one[key] != recipes["uniform"].get(key)}
    assert changed <= {"sampler", "loss_weight", "conflicts"}
    assert recipes["uniform_again"] == recipes["uniform"]


def test_networks_share_their_graph_and_all_settings_but_network_and_budget() -> None:
    unet, dit = (STUDY / one for one in NETWORKS)
    assert (unet / "dvc.yaml").read_bytes() == (dit / "dvc.yaml").read_bytes()
    first, second = (yaml.safe_load((one / "params.yaml").read_text(encoding="utf-8")) for one in (unet, dit))
    assert {key for key in first if first[key] != second[key]} == {"network", "recipes", "blocks", "pilot", "effects"}
    for name, recipe in second["recipes"].items():
        assert recipe == first["recipes"][name] | {"images": recipe["images"]}


def test_a_recipe_of_ones_own_is_what_readme_shows(tmp_path: Path) -> None:
    readme = (STUDY / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r'^```yaml title="studies/league/dit/params.yaml"\n(.*?)^```$', readme, re.M | re.S)
    settings = yaml.safe_load((STUDY / "dit/params.yaml").read_text(encoding="utf-8"))
    (section,) = (shown := yaml.safe_load(example))
    settings[section].update(shown[section])  # where an alias names the section, too
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    before, found = Params.read(STUDY / "dit/params.yaml"), Params.read(tmp_path / "params.yaml")
    (own,) = set(found.recipes) - set(before.recipes)
    # All of the other arms is as it was, and the new one is trained at their rate and compared as they are.
    assert found.recipes == before.recipes | {own: found.recipes[own]}
    assert found.blocks.arms == (*before.blocks.arms, own)
    assert found.pilot == before.pilot
    assert found.pilot.tried(own) == found.pilot.tried("adaptive") == found.pilot.tries["double"]
    assert found.blocks.compared == (*before.blocks.compared, Contrast(arm=own, control="uniform"))


@pytest.mark.parametrize("network", NETWORKS)
def test_all_arms_but_the_control_once_more_are_tried(network: str) -> None:
    found = Params.read(STUDY / network / "params.yaml")
    assert found.pilot.arms == tuple(arm for arm in found.blocks.arms if arm != found.blocks.repeated.arm)


def test_evenly_spread_batches_are_a_control_of_those_that_adapt() -> None:
    recipes, schedule = (found := Params.read(STUDY / "unet/params.yaml")).recipes, found.schedule.tables()
    plain, even, adaptive = (recipes[arm].sampler.build(schedule) for arm in ("uniform", "low_discrepancy", "adaptive"))
    assert isinstance(even.draw, LowDiscrepancy) and isinstance(adaptive.draw, LowDiscrepancy)
    assert np.array_equal(even.probabilities, plain.probabilities)


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"confirmation.seeds": [2, 200]}, "confirmation.seeds: 2 is a block of the study or of its pilot; allowed:"),
        ({"confirmation.seeds": [100, 200]}, "confirmation.seeds: 100 is a block of the study or of its pilot"),
        ({"confirmation.seeds": [200, 200]}, "confirmation.seeds: [200, 200] names one twice"),
        ({"recipes.adaptive.images": 200000}, "recipes.adaptive.images: 200000; allowed: 180000, as all others"),
        (
            {"pilot.chosen.uniform_again": "whole"},
            "pilot.chosen.uniform_again: 'whole'; allowed: 'double', as uniform",
        ),
        (
            {"blocks.control": None} | {"blocks.comparisons": [{"arm": arm, "control": "uniform"} for arm in OTHERS]},
            "blocks.control: null; allowed: the arm that all others are held against",
        ),
        (
            {"blocks.repeated": {"arm": "uniform_again", "control": "adaptive"}},
            "blocks.repeated.control: 'adaptive'; allowed: 'uniform'",
        ),
    ],
)
def test_what_makes_no_league_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY / "dit/params.yaml", edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
    assert "\n" not in str(refusal.value)
