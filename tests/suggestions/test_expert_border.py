"""Borders of two experts: halves of known integrals, and Wan's where FIELD knows them to lie."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiled import FLOW, LINEAR, gaussian

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.suggestions.suggestions import borders, halves

both = pytest.mark.parametrize("schedule", [LINEAR, FLOW], ids=lambda one: one.name)


@both
def test_halves_of_the_information_of_gaussian_noise_about_gaussian_images(schedule: NoiseSchedule):
    """∫ SNR/(1 + SNR) dλ = ln(1 + SNR), so that 1 + SNR is the geometric mean of its values at the ends."""
    high, low = schedule.snr[[0, -1]].tolist()
    expected = math.log(math.sqrt((1 + high) * (1 + low)) - 1)
    assert halves(gaussian(schedule), schedule).log_snr == pytest.approx(expected, abs=2e-3)


@both
def test_an_even_loss_has_its_half_in_the_middle(schedule: NoiseSchedule):
    log_snr = schedule.snr.log()
    assert halves(np.ones(1000), schedule).log_snr == pytest.approx(float(log_snr[0] + log_snr[-1]) / 2)


def test_each_border_is_described():
    over_timesteps, over_log_snr, text, image = borders(np.ones(1000), LINEAR)
    assert (over_log_snr.loss, over_timesteps.timesteps) == (pytest.approx(0.5), 0.5)
    assert over_timesteps.timestep == 500
    assert text.timestep == 620 and text.timesteps == pytest.approx(0.38)
    assert image.boundary.log_snr == pytest.approx(-4.394, abs=1e-3)
    share = (text.boundary.log_snr - float(LINEAR.snr.log()[-1])) / float(LINEAR.snr.log()[0] - LINEAR.snr.log()[-1])
    assert text.loss == pytest.approx(share)


@settings(max_examples=50, deadline=None)
@given(arrays(float, 50, elements=st.floats(0.05, 1)))
def test_halves_are_halves_of_any_loss(losses: np.ndarray):
    schedule = Flow(50)
    log_snr = schedule.snr.log().numpy()
    found = halves(losses, schedule).log_snr
    fine = np.linspace(log_snr[-1], log_snr[0], 20_001)
    along = np.interp(fine, log_snr[::-1], losses[::-1])
    pieces = (along[1:] + along[:-1]) / 2 * np.diff(fine)
    # In between two timesteps the loss over λ is taken to be even.
    assert pieces[fine[1:] <= found].sum() / pieces.sum() == pytest.approx(0.5, abs=0.05)
