"""Schedules by a scheduler's configuration, beside what diffusers' own schedulers hold."""

from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler, FlowMatchEulerDiscreteScheduler
from one_line import refusal

from unequal.profiler.document import Betas, Shifted
from unequal.profiler.schedules import schedule_of


def config_of(scheduler: Any) -> dict[str, Any]:
    return {**scheduler.config, "_class_name": type(scheduler).__name__}


@pytest.mark.parametrize("name", ["linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid"])
def test_betas_are_those_of_diffusers(name):
    scheduler = DDPMScheduler(num_train_timesteps=100, beta_start=1e-3, beta_end=0.05, beta_schedule=name)
    schedule, prediction = schedule_of(config_of(scheduler), "model", 16)
    assert isinstance(schedule, Betas) and prediction == "epsilon"
    assert torch.allclose(torch.tensor(schedule.betas), scheduler.betas, rtol=1e-4)


def test_listed_betas_are_taken_to_the_last_digit():
    betas = [0.1, 0.2, 1 / 3]
    scheduler = DDPMScheduler(num_train_timesteps=3, trained_betas=betas, prediction_type="sample")
    schedule, prediction = schedule_of(config_of(scheduler), "model", 16)
    assert isinstance(schedule, Betas)
    assert (list(schedule.betas), prediction) == (betas, "sample")


def test_betas_that_end_without_signal_are_rescaled_as_in_diffusers():
    scheduler = DDIMScheduler(
        num_train_timesteps=100, rescale_betas_zero_snr=True, prediction_type="v_prediction", beta_end=0.1
    )
    schedule, prediction = schedule_of(config_of(scheduler), "model", 16)
    power = schedule.tables().signal_power
    assert prediction == "v_prediction"
    assert torch.allclose(power[:-1].float(), scheduler.alphas_cumprod[:-1], rtol=1e-3)
    assert float(power[-1]) == pytest.approx(2**-24)


def test_a_flow_has_the_shift_of_its_scheduler():
    schedule, prediction = schedule_of(config_of(FlowMatchEulerDiscreteScheduler(shift=3.0)), "model", 16)
    assert (schedule, prediction) == (Shifted(timesteps=1000, shift=3.0), "velocity")
    bent = config_of(FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, time_shift_type="linear"))
    schedule, _ = schedule_of(bent, "model", 4096)
    assert schedule == Shifted(timesteps=1000, shift=1.15)


@pytest.mark.parametrize(("tokens", "shift"), [(256, 1.649), (1024, 1.878), (4096, 3.158)])
def test_a_shift_that_goes_by_the_size_of_images_is_that_of_flux(tokens, shift):
    """e^μ, where μ is linear in tokens: 0.5 at 256, 1.15 at 4096."""
    schedule, _ = schedule_of(config_of(FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)), "model", tokens)
    assert isinstance(schedule, Shifted)
    assert schedule.shift == pytest.approx(shift, abs=5e-4)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"prediction_type": "flow_prediction"}, "prediction_type 'flow_prediction'; allowed"),
        ({"beta_schedule": "laplace"}, "beta_schedule 'laplace'; allowed"),
        ({"trained_betas": [0.5, 1.5]}, "outside"),
        ({"timestep_type": "continuous"}, "has timestep_type 'continuous'; allowed: 'discrete'"),
        ({"use_flow_sigmas": True}, "has use_flow_sigmas True; allowed: False"),
    ],
)
def test_another_schedule_is_refused(changed, said):
    assert said in refusal(schedule_of, config_of(DDPMScheduler()) | changed, "model", 16)
