"""The boundary of two experts: published ones in all their units, and the way from each unit to the others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.boundary import Boundary

LINEAR = NoiseSchedule.linear(1000)
SCHEDULES = st.builds(Flow, st.integers(21, 500), st.floats(0.1, 12)) | st.builds(
    NoiseSchedule.named, st.sampled_from(["linear", "cosine", "scaled_linear"]), st.integers(21, 500)
)


@pytest.mark.parametrize(
    ("time", "shift", "log_snr", "unshifted", "steps"), [(0.875, 12, -3.892, 0.368, 26), (0.9, 5, -4.394, 0.643, 15)]
)
def test_the_boundaries_of_wan(time, shift, log_snr, unshifted, steps):
    """Text to video and image to video; of 40 steps, equally spaced before the shift, so many lie above."""
    boundary = Boundary.at_time(time)
    assert boundary.log_snr == pytest.approx(log_snr, abs=5e-4)
    assert boundary.time(shift) == pytest.approx(unshifted, abs=5e-4)
    assert Boundary.at_time(boundary.time(shift), shift).log_snr == pytest.approx(boundary.log_snr)
    assert (1 - np.arange(40) / 40 >= boundary.time(shift)).sum() == steps


def test_a_boundary_of_a_flow_is_one_of_any_schedule():
    boundary = Boundary.at_time(0.875)
    assert boundary.timestep(LINEAR) == 620


@given(SCHEDULES, st.data())
def test_a_timestep_is_the_first_of_the_expert_at_the_noise_end(schedule, data):
    t = data.draw(st.integers(1, schedule.timesteps - 1))
    boundary = Boundary.at_timestep(t, schedule)
    assert boundary.timestep(schedule) == t
    assert list(boundary.ranges(schedule)) == [(0, t - 1), (t, schedule.timesteps - 1)]


def test_boundaries_without_a_meaning_are_refused():
    with pytest.raises(UserError, match=r"^a boundary at s = 1.5 with a shift of 1.0; allowed: in \(0, 1\), above 0$"):
        Boundary.at_time(1.5)
    with pytest.raises(UserError, match=r"^a boundary at t = 1000; allowed: 0 … 999$"):
        Boundary.at_timestep(1000, LINEAR)
    with pytest.raises(UserError, match=r"leaves one expert without a timestep of schedule 'linear', whose λ fall"):
        Boundary(50.0).ranges(LINEAR)
