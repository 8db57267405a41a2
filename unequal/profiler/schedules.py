"""Noise schedule and prediction type of a pipeline's scheduler."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.profiler.document import Betas, Shifted

#: Schedulers of a rectified flow.
FLOWS = ("FlowMatchEulerDiscreteScheduler", "FlowMatchHeunDiscreteScheduler")
BETA_SCHEDULES = ("linear", "scaled_linear", "squaredcos_cap_v2", "sigmoid")
PREDICTIONS: tuple[Prediction, ...] = ("epsilon", "v_prediction", "sample")
#: ᾱ_{T−1} in diffusers for betas that are rescaled to end without signal: σ stays finite.
LAST_SIGNAL_POWER = 2.0**-24
#: Where the sigmoid of betas begins and ends.
SIGMOID = 6.0


def schedule_of(config: Mapping[str, Any], name: str, tokens: int) -> tuple[Betas | Shifted, Prediction]:
    """Schedule and prediction by a scheduler's configuration.

    Args:
        config: whole, with the defaults of its class.
        name: of the pipeline, for messages.
        tokens: of an image, by which the shift of some flows goes.

    Raises:
        UserError: a scheduler of another kind than DDPM's or a rectified flow's.
    """
    kind = str(config.get("_class_name"))
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
    """Betas in double precision, [T]; of those that end without signal, with the last ᾱ that diffusers takes."""
    if (trained := config.get("trained_betas")) is not None:
        betas = torch.tensor(trained, dtype=torch.float64)
    else:
        betas = named_betas(config, name)
    return with_hardly_any_signal_left(betas) if config.get("rescale_betas_zero_snr") else betas


def named_betas(config: Mapping[str, Any], name: str) -> Tensor:
    """Betas of a name in BETA_SCHEDULES, [T]. Raises UserError for another name."""
    kind, count = config["beta_schedule"], int(config.get("num_train_timesteps", 1000))
    first, last = float(config.get("beta_start", 1e-4)), float(config.get("beta_end", 0.02))
    match kind:
        case "linear":
            return torch.linspace(first, last, count, dtype=torch.float64)
        case "scaled_linear":
            return torch.linspace(first**0.5, last**0.5, count, dtype=torch.float64) ** 2
        case "squaredcos_cap_v2":
            return NoiseSchedule.cosine(count).betas
        case "sigmoid":
            places = torch.linspace(-SIGMOID, SIGMOID, count, dtype=torch.float64)
            return torch.sigmoid(places) * (last - first) + first
    raise UserError(f"{name}: its scheduler has beta_schedule '{kind}'; allowed: {', '.join(BETA_SCHEDULES)}")


def with_hardly_any_signal_left(betas: Tensor) -> Tensor:
    """Betas rescaled so that √ᾱ begins where it did and would end at 0 (2305.08891, algorithm 1)."""
    roots = torch.cumprod(1 - betas, 0).sqrt()
    roots = (roots - roots[-1]) * roots[0] / (roots[0] - roots[-1])
    powers = roots**2
    powers[-1] = LAST_SIGNAL_POWER
    return 1 - powers / torch.cat([powers.new_ones(1), powers[:-1]])
