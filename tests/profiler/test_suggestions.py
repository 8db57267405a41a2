"""Suggestions that follow from what was measured: slots, densities, γ, and the border of two experts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiled import FLOW, LINEAR, gaussian, measured

from unequal.diffusion.schedule import NoiseSchedule
from unequal.profiler.border import borders, halves
from unequal.profiler.suggestion import Options
from unequal.profiler.suggestions import Suggestions, even_gamma, spread
from unequal.timesteps.partition import equal_sums

both = pytest.mark.parametrize("schedule", [LINEAR, FLOW], ids=lambda one: one.name)


def test_a_flat_loss_has_slots_of_equal_length_and_a_uniform_density():
    found = Suggestions.of(measured(LINEAR, np.ones(1000)), Options())
    assert found.slots.value.lengths.tolist() == [100] * 10
    assert found.density.value.probabilities == pytest.approx(np.full(1000, 1e-3))
    assert found.density.value.moment == pytest.approx(1) and found.density.value.from_uniform == pytest.approx(0)


def test_the_density_is_of_the_loss_that_is_trained():
    """The loss of the velocity: ‖Δu‖² = ‖Δε‖²·(1 + √SNR)²/SNR = ‖Δε‖²/α²."""
    found = Suggestions.of(measured(FLOW, gaussian(FLOW), "velocity"), Options())
    expected = gaussian(FLOW) / FLOW.alpha.numpy() ** 2
    assert found.density.value.probabilities == pytest.approx(expected / expected.sum())


@pytest.mark.parametrize(("space", "factor"), [("epsilon", LINEAR.snr**0), ("x0", 1 / LINEAR.snr)])
def test_slots_are_of_the_space_that_is_asked_for(space, factor):
    found = Suggestions.of(measured(LINEAR, gaussian(LINEAR)), Options(slots=4, space=space))
    assert found.slots.value == equal_sums(gaussian(LINEAR) * np.asarray(factor), 4)


def test_draws_by_slots_have_as_much_of_each():
    found = Suggestions.of(measured(LINEAR, gaussian(LINEAR)), Options(slots=5, density="slots"))
    assert found.slots.value.sums(found.density.value.probabilities) == pytest.approx(np.full(5, 0.2))


@settings(max_examples=2)
@given(arrays(float, 60, elements=st.floats(0.1, 1)), st.sampled_from(["cosine", "flow"]), st.floats(1e-3, 1e3))
def test_the_unit_of_a_loss_changes_nothing(losses, name, unit):
    schedule = NoiseSchedule.named(name, 60)
    one, other = (Suggestions.of(measured(schedule, values), Options(slots=4)) for values in (losses, unit * losses))
    assert one.density.value.probabilities == pytest.approx(other.density.value.probabilities)
    assert one.boundary.value.boundary.log_snr == pytest.approx(other.boundary.value.boundary.log_snr)
    assert one.density.value.probabilities.sum() == pytest.approx(1) and one.density.value.moment <= 1 + 1e-9


@pytest.mark.parametrize("gamma", [0.5, 5.0, 100.0])
@both
def test_the_gamma_that_evens_a_loss_is_found(schedule, gamma):
    losses = (schedule.snr / schedule.snr.clamp(max=gamma)).numpy()
    found = even_gamma(losses, schedule)
    assert found.gamma == pytest.approx(gamma, rel=0.03)
    assert found.spread == pytest.approx(1, abs=0.02)
    assert found.spread < found.unweighted and not found.at_end


def test_an_even_loss_of_epsilon_needs_none():
    found = even_gamma(np.full(1000, 0.3), LINEAR)
    assert found.at_end
    assert found.gamma == pytest.approx(float(LINEAR.snr[0]))
    assert found.unweighted == pytest.approx(1)


def test_a_slope_has_the_spread_of_uniform_numbers():
    """ln SNR is uniform over λ: its standard deviation is the range over √12; a high γ weights nothing."""
    range_of = float(LINEAR.snr[0].log() - LINEAR.snr[-1].log())
    assert np.log(spread(LINEAR.snr.numpy(), LINEAR, np.array([1e9])))[0] == pytest.approx(
        range_of / np.sqrt(12), rel=1e-3
    )


@both
def test_halves_of_the_information_of_gaussian_noise_about_gaussian_images(schedule):
    """∫ SNR/(1 + SNR) dλ = ln(1 + SNR), so that 1 + SNR is the geometric mean of its values at the ends."""
    high, low = schedule.snr[[0, -1]].tolist()
    expected = math.log(math.sqrt((1 + high) * (1 + low)) - 1)
    assert halves("log_snr", gaussian(schedule), schedule).log_snr == pytest.approx(expected, abs=2e-3)


@both
def test_an_even_loss_has_its_half_in_the_middle(schedule):
    log_snr = schedule.snr.log()
    assert halves("log_snr", np.ones(1000), schedule).log_snr == pytest.approx(float(log_snr[0] + log_snr[-1]) / 2)


def test_each_border_is_described():
    over_timesteps, over_log_snr, text, image = borders(np.ones(1000), LINEAR)
    assert (over_log_snr.loss_at_noise_end, over_timesteps.timesteps_at_noise_end) == (pytest.approx(0.5), 0.5)
    assert over_timesteps.timestep == 500
    assert text.timestep == 620 and text.timesteps_at_noise_end == pytest.approx(0.38)
    assert image.boundary.log_snr == pytest.approx(-4.394, abs=1e-3)
    share = (text.boundary.log_snr - float(LINEAR.snr.log()[-1])) / float(LINEAR.snr.log()[0] - LINEAR.snr.log()[-1])
    assert text.loss_at_noise_end == pytest.approx(share)
