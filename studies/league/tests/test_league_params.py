"""The league's settings are sound, its recipes differ in what is asked about alone, and bad ones are a line."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from params_files import edited

from studies.league.params import Params
from unequal.errors import UserError

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
    assert {key for key in first if first[key] != second[key]} == {"network", "recipes", "blocks", "pilot"}
    for name, recipe in second["recipes"].items():
        assert recipe == first["recipes"][name] | {"images": recipe["images"]}


def test_a_recipe_of_ones_own_is_an_entry_its_name_and_its_try(tmp_path: Path) -> None:
    file = STUDY / "dit/params.yaml"
    text = file.read_text(encoding="utf-8").replace("adaptive]", "adaptive, tails]")
    text = text.replace("  chosen:", "  chosen:\n    tails: whole")
    entry = "  tails: {<<: *uniform, sampler: {kind: cauchy}}\n\nsubject:"
    (tmp_path / "params.yaml").write_text(text.replace("\nsubject:", entry), encoding="utf-8")
    found = Params.read(tmp_path / "params.yaml")
    assert found.blocks.compared[-1].arms == ("tails", "uniform")
    assert "tails" in found.pilot.arms


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"confirmation.seeds": [2, 200]}, "confirmation.seeds: 2 is a block of the study or of its pilot; allowed:"),
        ({"confirmation.seeds": [100, 200]}, "confirmation.seeds: 100 is a block of the study or of its pilot"),
        ({"confirmation.seeds": [200, 200]}, "confirmation.seeds: [200, 200] names one twice"),
        ({"recipes.adaptive.images": 200000}, "recipes.adaptive.images: 200000; allowed: 300000, as all others"),
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
