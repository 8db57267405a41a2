"""Loss weights over timesteps: Min-SNR (2303.09556) and P2 (2204.00227), for every prediction.

Both are given by their papers for ε. The same weighting of errors, for another prediction, follows
from the conversion of squared errors: ‖Δε‖² = SNR·‖Δx0‖², ‖Δx0‖² = ‖Δv‖²/(1 + SNR).
"""

from torch import Tensor, ones_like

from unequal.diffusion.predictions import unknown
from unequal.errors import UserError


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
        prediction: `epsilon`, `v_prediction` or `sample`.
        snr: [T], linear.
        gamma: γ of the weight.
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
