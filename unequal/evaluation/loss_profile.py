"""Loss profiles: means with standard errors, other spaces, excess, paired changes, and a training's endpoints.

Models are compared by three endpoints: `loss_over_timesteps`, the mean error of ε over t; `loss_over_log_snr`, its mean
over λ = ln(α²/σ²), to which the likelihood bound is proportional (−log p(x) ≤ ½ ∫ E‖ε − ε̂‖² dλ + c, 2107.00630); and
`x0_loss_over_log_snr`, the mean error of the clipped x0 over the λ in [−4, 9], where samples are decided: unclipped and
over all λ, nearly all of it would lie at the noise end, where little more than the mean image can be known.

Errors are known at timesteps only, so a mean over λ is that of the line through them: with λ falling from λ_0 to
λ_{T−1}, timestep t has the weight (λ_{t−1} − λ_{t+1})/2 over λ_0 − λ_{T−1}, the first and the last timestep half of
their one neighbouring interval (the trapezoidal rule). Where an end of [−4, 9] lies between two timesteps, the line is
cut there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from unequal.diffusion.predictions import Prediction, x0_error_factor
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError

#: Losses are measured in ε-space; short name → prediction in whose space they are reported too.
SPACES: dict[str, Prediction] = {"epsilon": "epsilon", "v": "v_prediction", "x0": "sample"}
#: λ between which errors of x0 are compared, the same for all schedules.
LOG_SNR_OF_X0 = (-4.0, 9.0)


@dataclass(frozen=True)
class LossProfile:
    """Mean loss of each timestep and its standard error, both [T]."""

    mean: np.ndarray
    stderr: np.ndarray

    @classmethod
    def of(cls, losses: np.ndarray) -> Self:
        """Profile of the losses of all draws, [T, n]. Raises UserError where n < 2 or a loss is not finite."""
        wide = checked(losses)
        return cls(wide.mean(1), wide.std(1, ddof=1) / np.sqrt(wide.shape[1]))

    def scaled(self, factor: np.ndarray) -> "LossProfile":
        """Every timestep's loss times a factor of its own, [T]."""
        return LossProfile(self.mean * factor, self.stderr * factor)

    @property
    def largest_over_smallest(self) -> float:
        return float(self.mean.max() / self.mean.min())


def checked(losses: np.ndarray) -> np.ndarray:
    """Losses [T, n] in double precision. Raises UserError where they are no draws of a profile."""
    if losses.ndim != 2 or losses.shape[1] < 2:
        raise UserError(f"losses of shape {list(losses.shape)} are no profile; needed: [timesteps, 2 draws or more]")
    if not np.isfinite(losses).all():
        t, n = np.argwhere(~np.isfinite(losses))[0]
        raise UserError(f"the loss profile holds {losses[t, n]} at t = {t}; losses are finite")
    return losses.astype(np.float64)


def space_factor(space: str, schedule: NoiseSchedule) -> np.ndarray:
    """Factor [T] from a squared error of ε to the same error in a space of SPACES: 1, 1/α² (v) or σ²/α² (x0).

    It is a factor of t alone: standard errors, optimal losses and excesses are converted as losses are.
    """
    tables = schedule.alpha.cpu(), schedule.sigma.cpu()
    factor: np.ndarray = (x0_error_factor("epsilon", *tables) / x0_error_factor(SPACES[space], *tables)).numpy()
    return factor


def excess_loss(losses: np.ndarray, optimal: np.ndarray) -> np.ndarray:
    """Loss of a model beyond the optimal denoiser's on the same draws, clipped at 0, [T]."""
    return np.maximum(0, excess_profile(losses, optimal).mean)


def excess_profile(losses: np.ndarray, optimal: np.ndarray) -> LossProfile:
    """Loss of a model beyond the optimal denoiser's on the same draws, both [T, n]; by chance it may be below 0.

    Raises UserError where the draws are not the same.
    """
    if losses.shape != optimal.shape:
        raise UserError(
            f"losses of shape {list(losses.shape)} and optimal-denoiser losses of shape {list(optimal.shape)}"
        )
    return LossProfile.of(losses.astype(np.float64) - optimal)


def relative_change(before: np.ndarray, after: np.ndarray) -> tuple[float, float]:
    """Σ_t L_t after / Σ_t L_t before − 1 over paired draws [t, n], and its standard error.

    The ratio's error comes from the paired residuals after − ratio·before (delta method): what both
    models find hard cancels.
    """
    before, after = checked(before), checked(after)
    if before.shape != after.shape:
        raise UserError(f"losses of shapes {list(before.shape)} and {list(after.shape)} are not of the same draws")
    total = before.mean(1).sum()
    ratio = after.mean(1).sum() / total
    return float(ratio - 1), standard_error((after - ratio * before) / total)


def standard_error(parts: np.ndarray) -> float:
    """Standard error of a sum over timesteps of means over draws, [t, n]: timesteps are strata of independent draws."""
    return float(np.sqrt((parts.var(1, ddof=1) / parts.shape[1]).sum()))


class Errors(NamedTuple):
    """Mean squared errors per value of ε and of x0 (of pixels clipped to [−1, 1]), of the same draws, both [T, n]."""

    epsilon: np.ndarray
    x0: np.ndarray


class Interval(NamedTuple):
    """Values of λ = ln(α²/σ²)."""

    low: float
    high: float


@dataclass(frozen=True)
class Endpoint:
    """A mean over timesteps.

    Attributes:
        error: which of `Errors` it is of.
        weights: of timesteps, [T], not negative, of sum 1.
        interval: of λ that it is a mean over; None: it is one over timesteps.
    """

    error: str
    weights: np.ndarray
    interval: Interval | None = None

    def of(self, errors: Errors) -> tuple[float, float]:
        """The mean and its standard error over draws: the resolution of this measurement, not of the training.

        Raises:
            UserError: errors of another number of timesteps, not finite, or of fewer than two draws.
        """
        parts = self.weighted(errors)
        return float(parts.mean(1).sum()), standard_error(parts)

    def change(self, before: Errors, after: Errors) -> tuple[float, float]:
        """The relative change from one model to another on the same draws, and its standard error over them.

        What both find hard cancels, as in `relative_change`. Raises UserError as `of`, and for other draws.
        """
        return relative_change(self.weighted(before), self.weighted(after))

    def weighted(self, errors: Errors) -> np.ndarray:
        table: np.ndarray = checked(getattr(errors, self.error))
        if len(table) != len(self.weights):
            raise UserError(f"errors of {len(table)} timesteps have no mean by a schedule of {len(self.weights)}")
        return table * self.weights[:, None]


def endpoints(schedule: NoiseSchedule) -> dict[str, Endpoint]:
    """The three, by name. Raises UserError where the schedule has no λ in LOG_SNR_OF_X0."""
    timesteps = schedule.timesteps
    return {
        "loss_over_timesteps": Endpoint("epsilon", np.full(timesteps, 1 / timesteps)),
        "loss_over_log_snr": Endpoint("epsilon", *log_snr_weights(schedule, Interval(-np.inf, np.inf))),
        "x0_loss_over_log_snr": Endpoint("x0", *log_snr_weights(schedule, Interval(*LOG_SNR_OF_X0))),
    }


def log_snr_weights(schedule: NoiseSchedule, interval: Interval) -> tuple[np.ndarray, Interval]:
    """Weights [T] of a mean over λ of the line through the timesteps, and the interval of λ that it is over.

    That is as much of the interval as the schedule reaches. Raises UserError where that is nothing.
    """
    log_snr = np.log(schedule.snr.cpu().numpy())
    upper, lower = log_snr[:-1], log_snr[1:]
    reached = Interval(max(interval.low, float(log_snr[-1])), min(interval.high, float(log_snr[0])))
    if reached.low >= reached.high:
        raise UserError(
            f"schedule '{schedule.name}' has log-SNRs from {log_snr[-1]:.2f} to {log_snr[0]:.2f}, none of them between "
            f"{interval.low:g} and {interval.high:g}, where models are compared"
        )
    high, low = np.clip(upper, *reached), np.clip(lower, *reached)
    # Of what is left of a piece the mean is the line's value at its middle: so much of either end's error.
    share = ((high + low) / 2 - lower) / (upper - lower)
    weights = np.zeros(len(log_snr))
    weights[:-1] += (high - low) * share
    weights[1:] += (high - low) * (1 - share)
    return weights / (reached.high - reached.low), reached


def as_metrics(endpoints: Mapping[str, Endpoint], errors: Errors) -> dict[str, float | list[float]]:
    """All endpoints of errors as metrics: `<name>`, `<name>_stderr`, and `<name>_interval` where it is over λ."""
    figures: dict[str, float | list[float]] = {}
    for name, endpoint in endpoints.items():
        figures[name], figures[f"{name}_stderr"] = endpoint.of(errors)
        if endpoint.interval is not None:
            figures[f"{name}_interval"] = list(endpoint.interval)
    return figures


def win_shares(wins: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Share of the images at which each head won, [T, H].

    Args:
        wins: counts, [bins, H].
        bins: the bin of each timestep, [T].

    Returns:
        NaN where a bin has seen no image.
    """
    counts = wins.sum(1, keepdims=True)
    return np.divide(wins, counts, out=np.full(wins.shape, np.nan), where=counts > 0)[bins]
