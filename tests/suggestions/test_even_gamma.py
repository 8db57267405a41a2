"""γ makes weighted losses even that one γ makes even, and none where they are so."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiled import FLOW, LINEAR, gaussian

from unequal.diffusion.schedule import NoiseSchedule
from unequal.suggestions.suggestions import even_gamma, log_spread


@pytest.mark.parametrize("gamma", [0.5, 5.0, 100.0])
@pytest.mark.parametrize("schedule", [LINEAR, FLOW], ids=lambda one: one.name)
def test_the_gamma_that_evens_a_loss_is_found(schedule: NoiseSchedule, gamma: float):
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
    """ln of the SNR itself is uniform over λ: its standard deviation is the range over √12."""
    range_of = float(LINEAR.snr[0].log() - LINEAR.snr[-1].log())
    assert np.log(log_spread(LINEAR.snr.numpy(), LINEAR.snr)) == pytest.approx(range_of / np.sqrt(12), rel=1e-3)


@settings(max_examples=10, deadline=None)
@given(st.floats(1e-6, 1e6))
def test_the_unit_of_a_loss_does_not_matter(unit: float):
    assert even_gamma(unit * gaussian(LINEAR), LINEAR).gamma == even_gamma(gaussian(LINEAR), LINEAR).gamma
