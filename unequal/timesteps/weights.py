"""Loss weights over timesteps: Min-SNR (2303.09556), P2 (2204.00227) and SpeeD's (2405.17403), for every prediction.

All are given by their papers for ε. The same weighting of errors, for another prediction, follows
from the conversion of squared errors: ‖Δε‖² = SNR·‖Δx0‖², ‖Δx0‖² = ‖Δv‖²/(1 + SNR).
"""

import torch
from torch import Tensor, ones_like

from unequal.diffusion.predictions import unknown
from unequal.errors import UserError

#: SpeeD's τ as a share of T, up to which its weight follows the change of the noise, and its κ: from 1 − κ to κ.
CHANGING_PART, KAPPA = 0.7, 0.6


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
        kind: `none` (1 everywhere), `min_snr` (for ε: min(SNR, γ)/SNR), `p2` (for ε: 1/(1 + SNR)^γ) or
            `change_aware`, see there.
        prediction: `epsilon`, `v_prediction` or `sample`.
        snr: [T], linear.
        gamma: γ of min_snr and p2.
    """
    if kind == "none":
        return ones_like(snr)
    if kind == "change_aware":
        return change_aware(snr) * epsilon_error_factor(prediction, snr)
    if gamma is None or gamma <= 0:
        raise UserError(f"loss weight '{kind}' needs a gamma above 0, got {gamma}")
    factor = epsilon_error_factor(prediction, snr)
    match kind:
        case "min_snr":
            return snr.clamp(max=gamma) / snr * factor
        case "p2":
            return factor / (1 + snr) ** gamma
    raise UserError(f"loss weight '{kind}' is unknown; allowed: none, min_snr, p2, change_aware")


def change_aware(snr: Tensor) -> Tensor:
    """SpeeD's weight of the error of ε (2405.17403), [T], from SNR_t [T], linear.

    1 − κ + (2κ − 1)·g_t below τ = 0.7·T, where g is the change of σ² = 1 − ᾱ from one timestep to the next, brought to
    0 … 1 over all timesteps; 1 from τ on.
    """
    (change,) = torch.gradient(1 / (1 + snr))
    share = (change - change.min()) / (change.max() - change.min())
    weights = 1 - KAPPA + (2 * KAPPA - 1) * share
    weights[round(CHANGING_PART * len(snr)) :] = 1
    return weights
