"""Min-SNR's γ (2303.09556), by how even it makes a measured loss over log-SNR."""

from dataclasses import dataclass

import numpy as np
import torch

from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.information import information
from unequal.timesteps.weights import loss_weights

#: Values of γ that are compared, in equal steps of its logarithm between the schedule's SNRs.
COMPARED = 1001


@dataclass(frozen=True)
class EvenGamma:
    """The γ under which weighted losses are most even.

    Attributes:
        gamma: γ.
        spread: by what factor weighted losses typically lie off their geometric mean over λ.
        of_paper: the same for γ = 5.
        unweighted: the same for errors of ε as they are.
        at_end: whether γ is an end of the schedule's SNRs, beyond which nothing changes.
    """

    gamma: float
    spread: float
    of_paper: float
    unweighted: float
    at_end: bool


def even_gamma(losses: np.ndarray, schedule: NoiseSchedule) -> EvenGamma:
    """γ with the least variance of ln(w·L) over λ, every interval of log-SNR counting by its length.

    The weights are min(SNR, γ) for errors of x0, whatever a network predicts, so that the prediction does not matter.

    Args:
        losses: of ε, [T], above 0.
        schedule: of the model.
    """
    low, high = float(schedule.snr[-1]), float(schedule.snr[0])
    gammas = np.geomspace(low, high, COMPARED)
    spreads = [spread(losses, schedule, gamma) for gamma in gammas.tolist()]
    best = int(np.argmin(spreads))
    at_end = best in (0, COMPARED - 1)
    return EvenGamma(
        float(gammas[best]), spreads[best], spread(losses, schedule, 5.0), spread(losses, schedule, high), at_end
    )


def spread(losses: np.ndarray, schedule: NoiseSchedule, gamma: float) -> float:
    """e to the standard deviation of ln(w·L) over λ."""
    weights = loss_weights("min_snr", "epsilon", schedule.snr, gamma=gamma)
    return log_spread(weights.numpy() * losses, schedule.snr)


def log_spread(values: np.ndarray, snr: torch.Tensor) -> float:
    """e to the standard deviation over λ of the logarithm of values [T], above 0."""
    widths = information(np.ones(len(values)), snr.log().numpy())
    logs, shares = np.log(values), widths / widths.sum()
    return float(np.exp(np.sqrt(shares @ (logs - shares @ logs) ** 2)))
