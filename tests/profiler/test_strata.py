"""Timesteps that are measured: closer where log-SNR falls fast, both ends among them."""

import numpy as np
import pytest

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.profiler.epsilon_errors import spread

SCHEDULES = [NoiseSchedule.linear(1000), NoiseSchedule.cosine(1000), Flow(1000, 3.0)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda one: one.name)
def test_log_snr_and_time_are_both_covered(schedule: NoiseSchedule) -> None:
    found = spread(schedule, 100)
    assert (found[0], found[-1]) == (0, 999)
    assert len(found) > 80
    # In the sum of two shares, no gap is more than two hundredths of each.
    log_snr = schedule.snr.log().numpy()[found]
    inner = slice(2, -2)  # near the ends of a flow or a cosine a single timestep crosses more
    assert np.diff(found).max() <= 2 / 99 * 999 + 1
    assert -np.diff(log_snr)[inner].min() <= 3 / 99 * (log_snr[0] - log_snr[-1])
