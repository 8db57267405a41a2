"""What recipes put their weight on: the numbers that are told and the picture that is drawn."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from graph import ROOT
from PIL import Image

from unequal.reporting.emphasis import Emphasis, emphasis
from unequal.settings.strict import read_yaml, validate
from unequal.tools.emphasis import Recipes, main

FLOW = {"name": "flow", "timesteps": 200, "shift": 3.0}


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """Recipes on a flow."""
    base = read_yaml(ROOT / "params.yaml")["recipes"]["base"] | {"prediction": "velocity"}
    recipes = {
        "plain": base,
        "weighed": base | {"sampler": {"kind": "logit_normal"}, "loss_weight": {"kind": "cosmap"}},
        "undone": base | {"sampler": {"kind": "mode", "unbiased": True}},
        "learned": base | {"loss_weight": {"kind": "learned_uncertainty"}},
        "learning": base | {"sampler": {"kind": "info_noise", "warmup_images": 1000}},
        "measuring": base | {"sampler": {"kind": "adaptive", "bins": 4, "refresh_images": 1000, "images_per_bin": 4}},
        "measured": base | {"sampler": {"kind": "mode", "normalised": True}},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"schedule": FLOW, "recipes": recipes}))
    return tmp_path / "params.yaml"


def found(params: Path, name: str) -> Emphasis:
    settings = validate(Recipes, read_yaml(params), params)
    return emphasis(name, settings.named(name), settings.schedule.tables(), params.parent)


def test_the_velocity_alone_has_no_weight_to_speak_of(params: Path) -> None:
    plain = found(params, "plain")
    assert plain.weight is not None
    np.testing.assert_allclose(plain.density, 1 / 200)
    np.testing.assert_allclose(plain.weight, 1)


def test_the_product_is_density_times_weight(params: Path) -> None:
    weighed, times = found(params, "weighed"), (np.arange(200) + 0.5) / 200
    shifted = 3 * times / (1 + 2 * times)
    expected = weighed.density / (1 - 2 * shifted + 2 * shifted**2)
    assert weighed.product is not None
    np.testing.assert_allclose(weighed.product, expected / expected.sum())


def test_weights_that_undo_a_density_leave_the_uniform_one(params: Path) -> None:
    undone = found(params, "undone").product
    assert undone is not None
    np.testing.assert_allclose(undone, 1 / 200)


def test_of_a_learned_weight_the_density_is_known(params: Path) -> None:
    assert found(params, "learned").weight is None


def test_of_a_learned_density_the_product_is_known_where_weights_undo_it(params: Path) -> None:
    assert found(params, "learning").weight is None
    measuring = found(params, "measuring").product
    assert measuring is not None
    np.testing.assert_allclose(measuring, 1 / 200)


def test_the_command_draws_and_tells(params: Path) -> None:
    target = params.parent / "drawn.png"
    done = CliRunner().invoke(main, ["plain", "weighed", "learned", "--params", str(params), "--target", str(target)])
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()] == ["recipe", "plain", "weighed", "learned", "drawn:"]
    with Image.open(target) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 50


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        (
            "other",
            "recipes: there is no 'other'; allowed: learned, learning, measured, measuring, plain, undone, weighed",
        ),
        ("measured", "artifacts/samplers/measured.json: missing"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(params: Path, name: str, complaint: str) -> None:
    done = CliRunner().invoke(main, [name, "--params", str(params)])
    assert done.exit_code == 1
    assert complaint in done.output
    assert len(done.output.strip().splitlines()) == 1
