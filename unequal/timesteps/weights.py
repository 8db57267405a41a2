"""Loss weights over timesteps: each is one function of SNR_t, for every prediction.

Papers give theirs for the one prediction that they train. `WEIGHTS` states all of them for a squared error of x0, as
functions of SNR [T], linear; `loss_weights` converts them to the prediction of a network by
`unequal.diffusion.predictions.x0_error_factor`.

A recipe chooses a weight by its function's name; the function's keywords are keys of the settings.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, ones_like

from unequal.diffusion.predictions import epsilon_error_factor, levels_of, x0_error_factor
from unequal.errors import UserError

#: Spaces of a squared error.
Space = Literal["x0", "epsilon", "v", "velocity"]

#: SpeeD's τ as a share of T, up to which its weight follows the change of the noise, and its κ: from 1 − κ to κ.
CHANGING_PART, KAPPA = 0.7, 0.6


def min_snr(snr: Tensor, *, gamma: float) -> Tensor:
    """Min-SNR (2303.09556): min(SNR, γ), which is min(SNR, γ)/SNR for ε; the paper takes γ = 5."""
    return snr.clamp(max=gamma)


def p2(snr: Tensor, *, gamma: float) -> Tensor:
    """P2 (2204.00227): SNR/(1 + SNR)^γ, which is 1/(1 + SNR)^γ for ε; the paper takes γ = 1."""
    return snr / (1 + snr) ** gamma


def edm(snr: Tensor, *, sigma_data: float = 0.5) -> Tensor:
    """EDM's (2206.00364): SNR + 1/σ_d², σ_d the standard deviation of the data."""
    return snr + 1 / sigma_data**2


def debiased(snr: Tensor) -> Tensor:
    """Debiased estimation (2310.08442): √SNR, which is 1/√SNR for ε."""
    return snr.sqrt()


def soft_min_snr(snr: Tensor, *, gamma: float = 4.0) -> Tensor:
    """Soft-min-SNR of k-diffusion: SNR·γ/(SNR + γ), where Min-SNR has a corner; its γ is 1/σ_d² = 4."""
    return snr * gamma / (snr + gamma)


def cosmap(snr: Tensor) -> Tensor:
    """The cosmap density (2403.03206) as a weight: 2/(π(1 − 2s + 2s²)) for the velocity, s = σ/(α + σ)."""
    time = 1 / (1 + snr.sqrt())
    return 2 / (math.pi * (1 - 2 * time + 2 * time**2)) / time**2


def constant(snr: Tensor, *, space: Space) -> Tensor:
    """1 for errors in one space, whatever the network predicts."""
    return 1 / x0_error_factor({"x0": "sample", "v": "v_prediction"}.get(space, space), *levels_of(snr))


def change_aware(snr: Tensor) -> Tensor:
    """SpeeD's (2405.17403), which for ε is as follows.

    1 − κ + (2κ − 1)·g_t below τ = 0.7·T, where g is the change of σ² = 1 − ᾱ from one timestep to the next, scaled to
    0 … 1 over all timesteps; 1 from τ on.
    """
    (change,) = torch.gradient(1 / (1 + snr))
    share = (change - change.min()) / (change.max() - change.min())
    weights = 1 - KAPPA + (2 * KAPPA - 1) * share
    weights[round(CHANGING_PART * len(snr)) :] = 1
    return snr * weights


#: All of them, by the names under which a recipe chooses them.
WEIGHTS: dict[str, Callable[..., Tensor]] = {
    "min_snr": min_snr,
    "p2": p2,
    "edm": edm,
    "debiased": debiased,
    "soft_min_snr": soft_min_snr,
    "cosmap": cosmap,
    "constant": constant,
    "change_aware": change_aware,
}


def weight_table(settings: Iterable[tuple[str, Any]], prediction: str, snr: Tensor) -> Tensor:
    """Factor of a squared error of the prediction at each timestep, as far as it is fixed, [T]; 1 where it is learned.

    Args:
        settings: keys and values of a loss weight.
        prediction: of the network, or of one of its heads.
        snr: [T], linear.
    """
    keys = dict(settings)
    kind = keys.pop("kind")
    return loss_weights(kind, prediction, snr, **keys) if kind in WEIGHTS else ones_like(snr)


def loss_weights(kind: str, prediction: str, snr: Tensor, **keywords: float | str) -> Tensor:
    """Weight of each timestep's squared error of the prediction, [T].

    Args:
        kind: `none` (1 everywhere, whatever the prediction), or a name in `WEIGHTS`.
        prediction: `epsilon`, `v_prediction`, `sample` or `velocity`.
        snr: [T], linear.
        keywords: of the weight, as `gamma`.

    Raises:
        UserError: no weight or no prediction has that name.
    """
    if kind == "none":
        return ones_like(snr)
    if kind not in WEIGHTS:
        raise UserError(f"loss weight '{kind}' is unknown; allowed: none, {', '.join(WEIGHTS)}")
    return WEIGHTS[kind](snr, **keywords) * epsilon_error_factor(prediction, snr) / snr


def normalising_factor(weights: np.ndarray, probabilities: np.ndarray, losses: np.ndarray) -> float:
    """Factor of weights by which E_p[w·L] = E[L]: clipping and learning rate then mean the same.

    Args:
        weights: of each timestep's loss, importance weights included, [T].
        probabilities: p_t, summing to 1, [T].
        losses: L_t, not all 0, [T].
    """
    return float(losses.mean() / (probabilities * weights * losses).sum())
