"""Loss weights over timesteps: each one function of SNR_t, for every prediction.

Papers give theirs for the one prediction that they train. The same weighting of errors, for another prediction, follows
from the conversion of squared errors: ‖Δε‖² = SNR·‖Δx0‖², ‖Δx0‖² = ‖Δv‖²/(1 + SNR) = ‖Δu‖²/(1 + √SNR)², u the velocity.

Min-SNR (2303.09556) and P2 (2204.00227) are told for ε; `WEIGHTS` holds the others, told for x0: a function of SNR [T],
linear, with a key of the settings for each of its keywords.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor, ones_like

from unequal.diffusion.predictions import unknown, with_velocity
from unequal.errors import UserError
from unequal.timesteps.numbers import Positive

#: Spaces of a squared error.
Space = Literal["x0", "epsilon", "v", "velocity"]

#: SpeeD's τ as a share of T, up to which its weight follows the change of the noise, and its κ: from 1 − κ to κ.
CHANGING_PART, KAPPA = 0.7, 0.6


def velocity_to_epsilon_error(snr: Tensor) -> Tensor:
    """SNR/(1 + √SNR)², from a squared error of the velocity to one of ε; α² on a flow, [T]."""
    return snr / (1 + snr.sqrt()) ** 2


@with_velocity(velocity_to_epsilon_error)
def epsilon_error_factor(prediction: str, snr: Tensor) -> Tensor:
    """Factor from a squared error of the prediction to one of ε, [T].

    ‖Δε‖² = SNR·‖Δx0‖², and ‖Δx0‖² = σ²·‖Δv‖² with σ² = 1/(1 + SNR).
    """
    match prediction:
        case "epsilon":
            return ones_like(snr)
        case "v_prediction":
            return snr / (1 + snr)
        case "sample":
            return snr
    raise unknown(prediction)


def loss_weights(kind: str, prediction: str, snr: Tensor, gamma: float | None = None) -> Tensor:
    """Weight of each timestep's squared error of the prediction, [T].

    Args:
        kind: `none` (1 everywhere), `min_snr` (for ε: min(SNR, γ)/SNR) or `p2` (for ε: 1/(1 + SNR)^γ).
        prediction: `epsilon`, `v_prediction`, `sample` or `velocity`.
        snr: [T], linear.
        gamma: γ of min_snr and p2.
    """
    if kind == "none":
        return ones_like(snr)
    if gamma is None or gamma <= 0:
        raise UserError(f"loss weight '{kind}' needs a gamma above 0, got {gamma}")
    factor = epsilon_error_factor(prediction, snr)
    match kind:
        case "min_snr":
            return snr.clamp(max=gamma) / snr * factor
        case "p2":
            return factor / (1 + snr) ** gamma
    raise UserError(f"loss weight '{kind}' is unknown; allowed: none, min_snr, p2")


def of_prediction(weights: Tensor, prediction: str, snr: Tensor) -> Tensor:
    """Weights of a squared error of x0 as weights of one of the prediction, [T]."""
    return weights * epsilon_error_factor(prediction, snr) / snr


def normalising_factor(weights: np.ndarray, probabilities: np.ndarray, losses: np.ndarray) -> float:
    """What weights are multiplied by so that E_p[w·L] = E[L]: clipping and learning rate then mean the same.

    Args:
        weights: of each timestep's loss, importance weights included, [T].
        probabilities: p_t, summing to 1, [T].
        losses: L_t, not all 0, [T].
    """
    return float(losses.mean() / (probabilities * weights * losses).sum())


def edm(snr: Tensor, *, sigma_data: Positive = 0.5) -> Tensor:
    """EDM's (2206.00364): SNR + 1/σ_d², σ_d the standard deviation of the data."""
    return snr + 1 / sigma_data**2


def debiased(snr: Tensor) -> Tensor:
    """Debiased estimation (2310.08442): √SNR, which is 1/√SNR for ε."""
    return snr.sqrt()


def soft_min_snr(snr: Tensor, *, gamma: Positive = 4.0) -> Tensor:
    """Soft-min-SNR of k-diffusion: SNR·γ/(SNR + γ), where Min-SNR has a corner; its γ is 1/σ_d² = 4."""
    return snr * gamma / (snr + gamma)


def cosmap(snr: Tensor) -> Tensor:
    """What stands for the cosmap density (2403.03206): 2/(π(1 − 2s + 2s²)) for the velocity, s = σ/(α + σ)."""
    time = 1 / (1 + snr.sqrt())
    return 2 / (math.pi * (1 - 2 * time + 2 * time**2)) / time**2


def constant(snr: Tensor, *, space: Space) -> Tensor:
    """1 for errors in one space, whatever the network predicts."""
    return {
        "x0": torch.ones_like(snr),
        "epsilon": snr,
        "v": 1 + snr,
        "velocity": (1 + snr.sqrt()) ** 2,
    }[space]


def change_aware(snr: Tensor) -> Tensor:
    """SpeeD's (2405.17403), told for ε.

    1 − κ + (2κ − 1)·g_t below τ = 0.7·T, where g is the change of σ² = 1 − ᾱ from one timestep to the next, brought to
    0 … 1 over all timesteps; 1 from τ on.
    """
    (change,) = torch.gradient(1 / (1 + snr))
    share = (change - change.min()) / (change.max() - change.min())
    weights = 1 - KAPPA + (2 * KAPPA - 1) * share
    weights[round(CHANGING_PART * len(snr)) :] = 1
    return snr * weights


#: All that are told for x0, by the names under which a recipe chooses them.
WEIGHTS: tuple[Callable[..., Tensor], ...] = (
    edm,
    debiased,
    soft_min_snr,
    cosmap,
    constant,
    change_aware,
)
