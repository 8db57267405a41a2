"""All suggestions together: they are those of the functions that make them, and follow from what was measured."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiled import FLOW, LINEAR, gaussian, measured

from unequal.diffusion.schedule import NoiseSchedule
from unequal.suggestions.suggestions import Options, Suggestions
from unequal.timesteps.partition import equal_sums


def test_a_flat_loss_has_slots_of_equal_length_and_a_uniform_density():
    found = Suggestions.of(measured(LINEAR, np.ones(1000)), Options())
    assert found.slots.lengths.tolist() == [100] * 10
    assert found.density.probabilities == pytest.approx(np.full(1000, 1e-3))
    assert found.density.moment == pytest.approx(1) and found.density.from_uniform == pytest.approx(0)


def test_the_density_is_of_the_loss_that_is_trained():
    """The loss of the velocity: ‖Δu‖² = ‖Δε‖²·(1 + √SNR)²/SNR = ‖Δε‖²/α²."""
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


@settings(max_examples=6, deadline=None)
@given(arrays(float, 60, elements=st.floats(0.1, 1)), st.sampled_from(["cosine", "flow"]), st.floats(1e-3, 1e3))
def test_the_unit_of_a_loss_changes_nothing(losses: np.ndarray, name: str, unit: float):
    schedule = NoiseSchedule.named(name, 60)
    one, other = (Suggestions.of(measured(schedule, values), Options(slots=4)) for values in (losses, unit * losses))
    assert one.density.probabilities == pytest.approx(other.density.probabilities)
    assert one.border.boundary.log_snr == pytest.approx(other.border.boundary.log_snr)
    assert one.density.probabilities.sum() == pytest.approx(1) and one.density.moment <= 1 + 1e-9
