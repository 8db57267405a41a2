"""Posterior of a less noisy image x' given x_t and x0, which a denoising step imitates, and its learned variance.

Learned variance (IDDPM, 2102.09672, section 3.1) lies between β̃ and β: the network gives a value o for each value of
the image; with v = (o + 1)/2 the step's variance is exp(v·log β + (1 − v)·log β̃). It is learned by the variational
bound, −log p(x0) ≤ Σ_t L_t.
"""

from math import log
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from unequal.diffusion.schedule import CLEAN, Level, NoiseSchedule, at, shifted

#: A number, or a table of them.
N = TypeVar("N", float, Tensor)
#: Half the distance between neighbouring values of 8-bit pixels in [-1, 1].
HALF_BIN = 1 / 255


class Posterior(NamedTuple, Generic[N]):
    """Coefficients of x0 and of x_t in the mean of x' given both, and its variance."""

    x0: N
    x_t: N
    variance: N


def posterior(schedule: NoiseSchedule) -> Posterior[Tensor]:
    """Posterior of the step from every timestep to the previous one, each [T] in float64; t = 0 leads to the image."""
    before = shifted(schedule.alpha, CLEAN.alpha), shifted(schedule.noise_power, CLEAN.sigma)
    return by_bayes(schedule.forward_scale, schedule.forward_variance, schedule.noise_power, *before)


def posterior_between(now: Level, after: Level) -> Posterior[float]:
    """Posterior of a step between any two levels, whose signal-to-noise ratio rises."""
    kept = now.alpha / after.alpha
    added = now.sigma**2 - (kept * after.sigma) ** 2
    return by_bayes(kept, added, now.sigma**2, after.alpha, after.sigma**2)


def by_bayes(kept: N, added: N, power: N, next_alpha: N, next_power: N) -> Posterior[N]:
    """The distribution of x' = α'·x0 + σ'·ε' given x0 and x_t = (α/α')·x' + √g·ε: two normal ones, multiplied.

    Its mean is α'g/σ²·x0 + (α/α')σ'²/σ²·x_t, its variance gσ'²/σ². Where α² + σ² = 1 and the step is that of one
    timestep, g is β_t, and this is 2006.11239, eq. 7.

    Args:
        kept: α/α'.
        added: g = σ² − (α/α')²σ'².
        power, next_alpha, next_power: σ², α', σ'².
    """
    unknown = next_power / power
    return Posterior(next_alpha * added / power, kept * unknown, unknown * added)


def large_share(output: Tensor) -> Tensor:
    """v, the share of log β in a step's log-variance, from a network's output; beyond −1 and 1 it is not clipped."""
    return (output + 1) / 2


class VariationalBound:
    """One term L_t of the bound, of the timestep that an image was noised to, in bits per dimension."""

    def __init__(self, schedule: NoiseSchedule) -> None:
        self.posterior = posterior(schedule)
        variance = self.posterior.variance
        # β̃ is 0 at the first timestep, whose logarithm IDDPM replaces by that of the second.
        self.log_small = torch.cat([variance[1:2], variance[1:]]).log()
        self.log_large = schedule.betas.log()

    def log_variance(self, output: Tensor, timesteps: Tensor) -> Tensor:
        """Log-variance of the step from each timestep, [B, C, H, W], from the network's output for it."""
        small, large = at(self.log_small, timesteps, output), at(self.log_large, timesteps, output)
        share = large_share(output)
        return share * large + (1 - share) * small

    def term(self, x0: Tensor, x_t: Tensor, predicted: Tensor, output: Tensor, timesteps: Tensor) -> Tensor:
        """L_t of each image, [B].

        Args:
            x0: the images, [B, C, H, W].
            x_t: as the network saw them.
            predicted: x0 as the network predicts it; hand it in detached where the variance alone is to learn.
            output: what the network says of the variance.
            timesteps: [B], int64.
        """
        from_x0, from_x_t = at(self.posterior.x0, timesteps, x0), at(self.posterior.x_t, timesteps, x0)
        true, mean = (from_x0 * image + from_x_t * x_t for image in (x0, predicted))
        log_variance = self.log_variance(output, timesteps)
        divergence = normal_kl(true, at(self.log_small, timesteps, x0), mean, log_variance)
        surprise = -discretised_log_likelihood(x0, mean, log_variance / 2)
        nats = torch.where(timesteps.reshape(-1, 1, 1, 1) == 0, surprise, divergence)
        return nats.flatten(1).mean(1) / log(2)


def normal_kl(mean: Tensor, log_variance: Tensor, other_mean: Tensor, other_log_variance: Tensor) -> Tensor:
    """KL divergence of a normal distribution from another, in nats, value by value."""
    ratio = log_variance - other_log_variance
    return (ratio.exp() - 1 - ratio + (mean - other_mean) ** 2 * (-other_log_variance).exp()) / 2


def discretised_log_likelihood(x: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Log-probability of 8-bit pixels in [-1, 1] under a normal distribution cut into their 256 bins, in nats.

    The outermost bins reach to infinity (2006.11239, eq. 13).
    """
    # Mirrored so that the nearer edge of the bin lies below the mean: small differences of tails keep their digits.
    distance, inverse_std = (x - mean).abs(), (-log_std).exp()
    near, far = (torch.special.log_ndtr((edge - distance) * inverse_std) for edge in (HALF_BIN, -HALF_BIN))
    bounded = near + torch.log(-torch.expm1(far - near))
    outwards = torch.sign(x) * (x - mean)
    outermost = torch.special.log_ndtr(-(outwards - HALF_BIN) * inverse_std)
    return torch.where(x.abs() > 1 - HALF_BIN, outermost, bounded)
