"""Noise schedule and prediction type of a pipeline's scheduler."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from torch import Tensor

from unequal.diffusion.predictions import Prediction
from unequal.errors import UserError
from unequal.profiler.document import Betas, Shifted

#: Schedulers of a rectified flow.
FLOWS = ("FlowMatchEulerDiscreteScheduler", "FlowMatchHeunDiscreteScheduler")
BETA_SCHEDULES = ("linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid")
PREDICTIONS: tuple[Prediction, ...] = ("epsilon", "v_prediction", "sample")
#: ᾱ_{T−1} in diffusers for betas that are rescaled to end without signal: σ stays finite.
LAST_SIGNAL_POWER = 2.0**-24
#: Keys of a configuration that make its betas.
OF_BETAS = ["num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "rescale_betas_zero_snr"]
#: Keys of noise or timesteps of another kind → the value under which they change nothing. All others that are not read
#: here are of sampling alone.
NEUTRAL = {"timestep_type": "discrete", "use_flow_sigmas": False, "invert_sigmas": False, "snr_shift_scale": 1.0}


def schedule_of(config: Mapping[str, Any], name: str, tokens: int) -> tuple[Betas | Shifted, Prediction]:
    """Schedule and prediction by a scheduler's configuration. Raises UserError for kinds but DDPM's and flows'."""
    kind = str(config.get("_class_name"))
    for key, value in NEUTRAL.items():
        if config.get(key, value) != value:
            raise UserError(f"{name}: its scheduler has {key} {config[key]!r}; allowed: {value!r}")
    if kind in FLOWS:
        return Shifted(timesteps=config["num_train_timesteps"], shift=shift_of(config, tokens)), "velocity"
    if "beta_schedule" not in config:
        raise UserError(
            f"{name}: its scheduler is a {kind}; allowed: schedulers with betas (DDPM's kind), and {', '.join(FLOWS)}"
        )
    prediction = config.get("prediction_type", "epsilon")
    if prediction not in PREDICTIONS:
        raise UserError(f"{name}: its scheduler says prediction_type '{prediction}'; allowed: {', '.join(PREDICTIONS)}")
    betas = Betas(betas=tuple(betas_of(config, name).tolist()))
    betas.tables()  # refuses betas that are none
    return betas, prediction


def shift_of(config: Mapping[str, Any], tokens: int) -> float:
    """k of a flow: the configuration's, or that of images with so many tokens where it depends on their size."""
    if not config.get("use_dynamic_shifting"):
        return float(config.get("shift", 1.0))
    few, many = config["base_image_seq_len"], config["max_image_seq_len"]
    low, high = config["base_shift"], config["max_shift"]
    mu = float(low + (high - low) * (tokens - few) / (many - few))
    return math.exp(mu) if config.get("time_shift_type", "exponential") == "exponential" else mu


def betas_of(config: Mapping[str, Any], name: str) -> Tensor:
    """Betas as diffusers has them, [T]; of those that end without signal, with the last ᾱ that it takes.

    Raises UserError for another name than those in BETA_SCHEDULES.
    """
    if (kind := config["beta_schedule"]) not in BETA_SCHEDULES:
        raise UserError(f"{name}: its scheduler has beta_schedule '{kind}'; allowed: {', '.join(BETA_SCHEDULES)}")
    ends_in_noise, listed = config.get("rescale_betas_zero_snr"), config.get("trained_betas")
    if listed is not None and not ends_in_noise:
        return torch.tensor(listed, dtype=torch.float64)
    known = DDPMScheduler(**{key: config[key] for key in OF_BETAS if key in config})
    betas = known.betas.double()
    if ends_in_noise:
        betas[-1] = 1 - LAST_SIGNAL_POWER / known.alphas_cumprod[-2].double()
    return betas
