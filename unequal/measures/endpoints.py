"""Endpoints of a training: what its errors on held-out draws come to in one number, three times.

Models are compared by these: `loss_over_timesteps`, the mean error of ε over t; `loss_over_log_snr`, its mean over
λ = ln(α²/σ²), to which the likelihood bound is proportional (−log p(x) ≤ ½ ∫ E‖ε − ε̂‖² dλ + c, 2107.00630);
and `x0_loss_over_log_snr`, the mean error of the clipped x0 over the λ in [−4, 9], where samples are decided: unclipped
and over all λ, nearly all of it would lie at the noise end, where little more than the mean image can be known.

Of errors only the timesteps' are known, so a mean over λ is that of the line through them: with λ falling from λ_0 to
λ_{T−1}, timestep t has the weight (λ_{t−1} − λ_{t+1})/2 over λ_0 − λ_{T−1}, the first and the last timestep that of
their one neighbouring interval's half (the trapezoidal rule). Where an end of [−4, 9] lies between two timesteps, the
line is cut there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.measures.loss_profile import checked, relative_change, standard_error

#: λ between which errors of x0 are compared, the same for all schedules.
LOG_SNR_OF_X0 = (-4.0, 9.0)


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
        """Errors times their weights, [T, n]."""
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


def told(found: Mapping[str, Endpoint], errors: Errors) -> dict[str, float | list[float]]:
    """All endpoints of errors as figures: `<name>`, `<name>_stderr`, and `<name>_interval` where it is over λ."""
    figures: dict[str, float | list[float]] = {}
    for name, endpoint in found.items():
        figures[name], figures[f"{name}_stderr"] = endpoint.of(errors)
        if endpoint.interval is not None:
            figures[f"{name}_interval"] = list(endpoint.interval)
    return figures
