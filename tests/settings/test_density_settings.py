"""Densities and weights as settings: their keys are their functions' keywords, and one sampler is made of them."""

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from specs import spec_of

from unequal.diffusion.predictions import epsilon_error_factor
from unequal.diffusion.schedule import Flow
from unequal.settings.densities import Formula
from unequal.settings.loss_weights import AnyLossWeight
from unequal.settings.recipe import Recipe
from unequal.settings.samplers import AnySampler
from unequal.timesteps.building import BaseMeasurements, build_sampler
from unequal.timesteps.densities import DENSITIES, masses, mode
from unequal.timesteps.draws import LowDiscrepancy
from unequal.timesteps.weights import WEIGHTS, soft_min_snr, weight_table
from unequal.training.objectives import SingleHead
from unequal.training.timestep_files import read_sampler, write_sampler
from unequal.training.train import single_head

T = 50
FLOW = Flow(T, 3.0)


def sampler(**settings: Any) -> AnySampler:
    return TypeAdapter(AnySampler).validate_python(settings)


def test_every_density_and_every_weight_has_a_kind() -> None:
    gamma = {"gamma": 5.0}
    needed = {"min_snr": gamma, "p2": gamma, "beta": {"a": 0.6, "b": 0.6}, "constant": {"space": "v"}}
    common = {*Formula.model_fields, "kind"}
    for key, choice, functions in (("density", AnySampler, DENSITIES), ("kind", AnyLossWeight, WEIGHTS)):
        for name, function in functions.items():
            section = TypeAdapter(choice).validate_python({key: name} | needed.get(name, {}))
            own = {name: field.default for name, field in type(section).model_fields.items() if name not in common}
            keywords = {
                name: one for name, one in signature(function).parameters.items() if one.kind is one.KEYWORD_ONLY
            }
            assert own.keys() == keywords.keys()
            assert all(own[name] == one.default for name, one in keywords.items() if one.default is not one.empty)


def test_keys_reach_the_function() -> None:
    made = build_sampler(sampler(density="mode", scale=0.5, shift=2.0, ends="closed", draw="low_discrepancy"), FLOW)
    assert isinstance(made.draw, LowDiscrepancy)
    expected = masses(lambda edges: mode(edges, scale=0.5), FLOW, 2.0, "closed")
    np.testing.assert_array_equal(made.probabilities, expected)
    weight = TypeAdapter(AnyLossWeight).validate_python({"kind": "soft_min_snr", "gamma": 2.0})
    torch.testing.assert_close(weight_table(weight, "sample", FLOW.snr), soft_min_snr(FLOW.snr, gamma=2.0))


@pytest.mark.parametrize("prediction", ["velocity", "epsilon"])
@pytest.mark.parametrize(("kind", "unbiased"), [("mode", False), ("mode", True), ("uniform", False)])
def test_a_normalised_loss_is_the_bases_in_the_mean(prediction: str, kind: str, unbiased: bool, tmp_path: Path) -> None:
    """E_p[w·L] = E[L] of the base's losses in the network's own space, from the file that a training reads."""
    losses = np.random.default_rng(0).random(T) + 0.1
    settings = sampler(density=kind, normalised=True, unbiased=unbiased)
    write_sampler(tmp_path / "sampler.json", settings, BaseMeasurements(loss=losses), T)
    made = read_sampler(tmp_path / "sampler.json", FLOW)
    recipe = Recipe.model_construct(loss_weight=TypeAdapter(AnyLossWeight).validate_python({"kind": "edm"}))
    spec = spec_of(prediction, schedule="flow", timesteps=T, shift=3.0)
    objective = single_head(recipe, spec, torch.device("cpu"), made)
    assert isinstance(objective, SingleHead)
    own = losses / epsilon_error_factor(prediction, FLOW.snr).numpy()
    weighted = made.probabilities * made.importance() * objective.weights.double().numpy() * own
    assert weighted.sum() == pytest.approx(own.mean(), rel=1e-5)
