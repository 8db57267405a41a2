"""The effective weighting of recipes: numbers and picture."""

from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from commands import done, refused
from graph import ROOT
from PIL import Image
from safetensors.torch import save_file
from specs import record_of, spec_of
from torch import nn

from unequal.cli.weighting import Recipes
from unequal.diffusion.schedule import noise_schedule
from unequal.report.effective_weighting import EffectiveWeighting, effective_weighting
from unequal.runtime.files import write_json
from unequal.settings.strict import read_yaml, validate
from unequal.timesteps.partition import TimestepRange
from unequal.training.objectives import objective_for

FLOW = {"name": "flow", "timesteps": 200, "shift": 3.0}


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """Recipes on a flow."""
    base = read_yaml(ROOT / "presets/digits.yaml")["recipes"]["base"] | {"prediction": "velocity"}
    recipes = {
        "plain": base,
        "weighed": base | {"sampler": {"density": "logit_normal"}, "loss_weight": {"kind": "cosmap"}},
        "undone": base | {"sampler": {"density": "mode", "unbiased": True}},
        "learned": base | {"loss_weight": {"kind": "learned_uncertainty"}},
        "learning": base | {"sampler": {"density": "info_noise", "warmup_images": 1000}},
        "measuring": base
        | {"sampler": {"density": "adaptive", "bins": 4, "refresh_images": 1000, "images_per_bin": 4}},
        "measured": base | {"sampler": {"density": "mode", "normalised": True}},
        "slot": base | {"sampler": {"density": "slot"}, "loss_weight": {"kind": "cosmap"}},
        "expert": base | {"sampler": {"density": "slot"}},
    }
    (tmp_path / "params.yaml").write_text(yaml.safe_dump({"schedule": FLOW, "recipes": recipes}))
    return tmp_path / "params.yaml"


def found(params: Path, name: str) -> EffectiveWeighting:
    settings = validate(Recipes, read_yaml(params), params)
    return effective_weighting(name, settings.recipes[name], noise_schedule(settings.schedule), params.parent)


def test_the_product_is_density_times_weight(params: Path) -> None:
    weighed, times = found(params, "weighed"), (np.arange(200) + 0.5) / 200
    shifted = 3 * times / (1 + 2 * times)
    expected = weighed.density / (1 - 2 * shifted + 2 * shifted**2)
    assert weighed.product is not None
    np.testing.assert_allclose(weighed.product, expected / expected.sum())


def test_what_was_learned_takes_the_place_of_what_is_not_known(params: Path) -> None:
    settings = validate(Recipes, read_yaml(params), params)
    density, factors = np.linspace(1, 2, 200) / 300, np.linspace(3, 1, 200)

    def learned(name: str, **tables: np.ndarray) -> np.ndarray | None:
        recipe, schedule = settings.recipes[name], noise_schedule(settings.schedule)
        return effective_weighting(name, recipe, schedule, params.parent, learned=tables).product

    product = learned("learning", density=density, importance=1 / density)
    assert product is not None
    np.testing.assert_allclose(product, 1 / 200)
    product = learned("learned", factors=factors)
    assert product is not None
    np.testing.assert_allclose(product, factors / factors.sum())
    assert learned("learning", factors=factors) is None


def test_of_a_learned_density_the_product_is_known_where_weights_undo_it(params: Path) -> None:
    assert found(params, "learning").weight is None
    measuring = found(params, "measuring").product
    assert measuring is not None
    np.testing.assert_allclose(measuring, 1 / 200)


def test_the_command_draws_and_prints(params: Path) -> None:
    target = params.parent / "drawn.png"
    output = done("weights", "plain", "weighed", "learned", "--params", params, "--target", target)
    assert [line.split()[0] for line in output.splitlines()] == ["recipe", "plain", "weighed", "learned", "drawn:"]
    with Image.open(target) as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 50


def test_inside_a_range_the_density_is_uniform_and_weights_are_the_recipes(params: Path) -> None:
    settings, held = validate(Recipes, read_yaml(params), params), np.zeros(200)
    held[20:40] = 1 / 20
    slot = effective_weighting(
        "slot_2", settings.recipes["slot"], noise_schedule(settings.schedule), Path(), TimestepRange(20, 39)
    )
    weighed = found(params, "weighed").weight
    assert slot.product is not None and slot.weight is not None and weighed is not None
    np.testing.assert_allclose(slot.density, held)
    assert slot.product.sum() == pytest.approx(1)
    np.testing.assert_allclose(slot.weight[20:40] / slot.weight[20], weighed[20:40] / weighed[20])
    assert not slot.weight[:20].any() and not slot.weight[40:].any()


def test_a_weight_whose_parameters_lie_beside_a_model_is_drawn(params: Path) -> None:
    document, model = read_yaml(params), params.parent / "artifacts/models/learned"
    settings = validate(Recipes, document, params)
    recipe, spec = settings.recipes["learned"], spec_of("velocity", schedule="flow", timesteps=200, shift=3.0)
    write_json(model / "model.json", record_of(0, 199, spec).model_dump())
    objective = objective_for(spec, noise_schedule(settings.schedule), recipe.loss_weight)
    nn.init.normal_(next(objective.parameters()), generator=torch.Generator().manual_seed(0))
    save_file({name: value.detach() for name, value in objective.named_parameters()}, model / "objective.safetensors")
    (learned,) = settings.curves("learned", params.parent)
    factors = objective.factors()
    assert factors is not None and learned.product is not None and factors.std() > 0
    np.testing.assert_allclose(learned.product, factors / factors.sum(), rtol=1e-6)


def test_parameters_of_another_weight_are_refused(params: Path) -> None:
    model = params.parent / "artifacts/models/learned"
    spec = spec_of("velocity", schedule="flow", timesteps=200)
    write_json(model / "model.json", record_of(0, 199, spec).model_dump())
    save_file({"uncertainty.weight": torch.zeros(3)}, model / "objective.safetensors")
    line = refused("weights", "learned", "--params", params)
    assert "objective.safetensors: learned by other settings; train learned again" in line


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("other", "recipes: there is no 'other'; allowed: expert, learned, learning, measured, measuring,"),
        ("measured", "artifacts/samplers/measured.json: missing"),
        ("slot", "artifacts/slots.json: missing"),
        ("expert", "artifacts/groups.json: missing"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(params: Path, name: str, complaint: str) -> None:
    assert complaint in refused("weights", name, "--params", params)
