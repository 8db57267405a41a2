"""Rectified flow, α + σ = 1, goes through all that is computed over timesteps, and is the field's own."""

from functools import partial
from itertools import pairwise
from typing import get_args

import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal
from specs import spec_of
from torch import Tensor

from unequal.diffusion import schedule as schedules
from unequal.diffusion.predictions import to_x0, x0_error_factor
from unequal.diffusion.schedule import Flow
from unequal.diffusion.solvers import ddim
from unequal.diffusion.spacing import sampling_timesteps
from unequal.evaluation.loss_profile import space_factor
from unequal.settings.schedule import Schedule
from unequal.timesteps.groups import mean_limit, timestep_groups

T = 50
spec = partial(spec_of, schedule="flow", timesteps=T)


@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_its_groups_are_the_known_ones(shift):
    """Ten groups of SNR: 2 8 36 133 321 and mirrored, mean limit 0.775 for k = 0.5 by symmetry; its ends are ±66 dB,
    which a shift of 3 lowers by 9.54."""
    found, flow = timestep_groups("snr", Flow(1000, shift), 10, 0.5), Flow(1000, shift)
    assert [one.range.length for one in found] == [2, 8, 36, 133, 321, 321, 133, 36, 8, 2]
    assert mean_limit(found) == pytest.approx(0.775)
    lowered = 9.54 if shift == 3 else 0
    assert flow.snr_db[[0, -1]].tolist() == pytest.approx([66.02 - lowered, -66.02 - lowered], abs=0.01)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: spec("v_prediction").noise_schedule(), "prediction: 'v_prediction' has no meaning on schedule 'flow'"),
        (lambda: spec(variance="learned").noise_schedule(), "variance: 'learned' has no meaning on schedule 'flow'"),
        (lambda: Flow(T, 0.0), "schedule 'flow' with a shift of 0.0; allowed: above 0"),
        (lambda: Flow(T, float("inf")), "schedule 'flow' with a shift of inf; allowed: above 0"),
        (lambda: Flow(T, float("nan")), "schedule 'flow' with a shift of nan; allowed: above 0"),
    ],
)
def test_what_has_no_meaning_on_a_flow_is_refused(make, complaint):
    assert refusal(make).startswith(complaint)


def test_the_settings_know_every_schedule():
    allowed = [get_args(kind.model_fields["name"].annotation) for kind in get_args(get_args(Schedule)[0])]
    assert {name for names in allowed for name in names} == set(schedules.SCHEDULES)


@given(st.integers(21, 2000), st.floats(0.05, 50))
def test_a_shift_divides_every_snr_by_its_square(timesteps, shift):
    plain, shifted = Flow(timesteps), Flow(timesteps, shift)
    torch.testing.assert_close(shifted.snr, plain.snr / shift**2)
    torch.testing.assert_close(shifted.alpha + shifted.sigma, torch.ones(timesteps).double())
    torch.testing.assert_close(shifted.sigma, shift * plain.sigma / (1 + (shift - 1) * plain.sigma))


@pytest.mark.parametrize(("timesteps", "shift"), [(1000, 1.0), (1000, 3.0), (50, 12.0)])
def test_a_network_gets_the_times_of_the_scheduler_of_diffusers(timesteps, shift):
    flow, scheduler = Flow(timesteps, shift), FlowMatchEulerDiscreteScheduler(shift=shift)
    scheduler.set_timesteps(sigmas=flow.times.flip(0).tolist())
    times = flow.model_timestep(torch.arange(timesteps))
    assert times.dtype == torch.float32
    torch.testing.assert_close(times.flip(0), scheduler.timesteps, rtol=1e-5, atol=0)
    torch.testing.assert_close(flow.sigma.float().flip(0), scheduler.sigmas[:-1], rtol=1e-5, atol=0)


@settings(max_examples=30)
@given(st.integers(1, T), st.floats(0.2, 20))
def test_ddim_is_eulers_method_for_the_flow(steps, shift):
    schedule, chosen = Flow(T, shift), sampling_timesteps(steps, T)
    start = torch.randn(3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def velocity_at(x: Tensor, t: int) -> Tensor:
        return torch.sin(3 * x) + schedule.sigma[t]

    def predict(x: Tensor, t: int) -> Tensor:
        return to_x0("velocity", velocity_at(x, t), x, schedule.alpha[t], schedule.sigma[t])

    x, times = start, [float(schedule.sigma[t]) for t in chosen] + [0.0]
    for t, (now, after) in zip(chosen, pairwise(times), strict=True):
        x = x + (after - now) * velocity_at(x, t)
    torch.testing.assert_close(ddim(start, chosen, schedule, predict), x, rtol=1e-9, atol=1e-9)


def test_its_losses_are_converted_between_the_spaces_of_epsilon_velocity_and_x0():
    flow = Flow(T, 2.0)
    known = {"epsilon": "epsilon", "v": "velocity", "x0": "sample"}
    for space, prediction in known.items():
        factor = torch.from_numpy(space_factor(space, flow)) * x0_error_factor(prediction, flow.alpha, flow.sigma)
        torch.testing.assert_close(factor, flow.sigma**2 / flow.alpha**2)
