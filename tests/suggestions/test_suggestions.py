"""All suggestions together: they are those of the functions that make them, and follow from what was measured."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiled import FLOW, LINEAR, gaussian, measured

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.diffusion.spacing import sampling_timesteps, spaced_timesteps
from unequal.suggestions.sections import sections
from unequal.suggestions.suggestions import Options, Suggestions
from unequal.timesteps.densities import logit_normal, masses
from unequal.timesteps.partition import equal_sums


def test_a_flat_loss_has_slots_of_equal_length_and_a_uniform_density():
    found = Suggestions.of(measured(LINEAR, np.ones(1000)), Options())
    assert found.slots.lengths.tolist() == [100] * 10
    assert found.density.probabilities == pytest.approx(np.full(1000, 1e-3))
    assert found.density.moment == pytest.approx(1) and found.density.from_uniform == pytest.approx(0)


def test_a_loss_made_from_a_logit_normal_gives_it_back():
    p = masses(partial(logit_normal, mean=-0.4, std=0.9), LINEAR, 1.0, "open")
    found = Suggestions.of(measured(LINEAR, p), Options(slots=2))
    assert found.nearest.family == "logit_normal"
    assert found.nearest.arguments == pytest.approx({"mean": -0.4, "std": 0.9}, abs=1e-3)


def test_the_density_is_of_the_loss_that_is_trained():
    """Of the velocity: ‖Δu‖² = ‖Δε‖²·(1 + √SNR)²/SNR = ‖Δε‖²/α²."""
    found = Suggestions.of(measured(FLOW, gaussian(FLOW), "velocity"), Options())
    expected = gaussian(FLOW) / FLOW.alpha.numpy() ** 2
    assert found.density.probabilities == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize(("space", "factor"), [("epsilon", LINEAR.snr**0), ("x0", 1 / LINEAR.snr)])
def test_slots_are_of_the_space_that_is_asked_for(space: str, factor: object):
    found = Suggestions.of(measured(LINEAR, gaussian(LINEAR)), Options(slots=4, space=space))
    assert found.slots == equal_sums(gaussian(LINEAR) * np.asarray(factor), 4)


def test_draws_by_slots_have_as_much_of_each():
    found = Suggestions.of(measured(LINEAR, gaussian(LINEAR)), Options(slots=5, density="slots"))
    assert found.slots.sums(found.density.probabilities) == pytest.approx(np.full(5, 0.2))


def test_steps_are_those_of_the_spacings():
    found = Suggestions.of(measured(LINEAR, gaussian(LINEAR)), Options(steps=12))
    assert found.steps == spaced_timesteps(12, LINEAR, "rescaled_profile", gaussian(LINEAR))
    assert found.uniform_steps == sampling_timesteps(12, 1000)


def test_halves_that_are_asked_for():
    one, other = (Suggestions.of(measured(LINEAR, np.ones(1000)), Options(halves=h)) for h in ("timesteps", "log_snr"))
    assert one.border == one.borders[0] and one.border.timestep == 500
    assert other.border == one.borders[1] and other.border.loss == pytest.approx(0.5)


@settings(max_examples=6, deadline=None)
@given(arrays(float, 60, elements=st.floats(0.1, 1)), st.sampled_from(["cosine", "flow"]), st.floats(1e-3, 1e3))
def test_the_unit_of_a_loss_changes_nothing(losses: np.ndarray, name: str, unit: float):
    schedule = NoiseSchedule.named(name, 60)
    one, other = (Suggestions.of(measured(schedule, values), Options(slots=4)) for values in (losses, unit * losses))
    assert one.density.probabilities == pytest.approx(other.density.probabilities)
    assert one.border.boundary.log_snr == pytest.approx(other.border.boundary.log_snr)
    assert one.density.probabilities.sum() == pytest.approx(1) and one.density.moment <= 1 + 1e-9


def test_a_density_that_no_name_is_near_to_is_said_to_be_far():
    spikes = np.where(np.arange(1000) % 300 < 100, 1.0, 0.01)
    density = sections(Suggestions.of(measured(FLOW, spikes), Options(slots=4)))[1]
    assert "No named density is near" in density.caveat
    near = sections(Suggestions.of(measured(Flow(1000), np.ones(1000)), Options()))[1]
    assert "No named density" not in near.caveat
