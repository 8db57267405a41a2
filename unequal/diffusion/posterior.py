"""The posterior q(x_{t−1} | x_t, x0) of the forward process, which a denoising step imitates."""

from typing import NamedTuple

import torch
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule


class Posterior(NamedTuple):
    """Coefficients of x0 and of x_t in the mean of x_{t−1} given both, and its variance β̃, each [T] in float64."""

    x0: Tensor
    x_t: Tensor
    variance: Tensor


def posterior(schedule: NoiseSchedule) -> Posterior:
    """The normal distribution of x_{t−1} at every timestep (2006.11239, eq. 7), where ᾱ_{−1} = 1.

    Its mean is √ᾱ_{t−1}·β_t/(1 − ᾱ_t)·x0 + √(1 − β_t)·(1 − ᾱ_{t−1})/(1 − ᾱ_t)·x_t, its variance
    (1 − ᾱ_{t−1})/(1 − ᾱ_t)·β_t.
    """
    now, beta = schedule.alphas_cumprod, schedule.betas
    before = torch.cat([now.new_ones(1), now[:-1]])
    unknown = (1 - before) / (1 - now)
    return Posterior(before.sqrt() * beta / (1 - now), (1 - beta).sqrt() * unknown, unknown * beta)
