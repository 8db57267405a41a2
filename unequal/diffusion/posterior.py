"""The distribution of a less noisy image x' given x_t and x0, which a denoising step imitates."""

from typing import Generic, NamedTuple, TypeVar

from torch import Tensor

from unequal.diffusion.schedule import CLEAN, Level, NoiseSchedule, shifted

#: A number, or a table of them.
N = TypeVar("N", float, Tensor)


class Posterior(NamedTuple, Generic[N]):
    """Coefficients of x0 and of x_t in the mean of x' given both, and its variance."""

    x0: N
    x_t: N
    variance: N


def posterior(schedule: NoiseSchedule) -> Posterior[Tensor]:
    """That of the step from every timestep to the one before it, each [T] in float64; t = 0 leads to the image."""
    before = shifted(schedule.alpha, CLEAN.alpha), shifted(schedule.noise_power, CLEAN.sigma)
    return by_bayes(schedule.forward_scale, schedule.forward_variance, schedule.noise_power, *before)


def posterior_between(now: Level, after: Level) -> Posterior[float]:
    """That of a step between any two levels, whose signal-to-noise ratio rises."""
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
