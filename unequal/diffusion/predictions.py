"""Predictions of a network: ε, v, x0 or the velocity of a flow, and conversions between them.

With x_t = α·x0 + σ·ε and v = α·ε − σ·x0 (α² + σ² = 1), an error of the prediction is an error of x0
times a factor of t alone: ‖Δx0‖² = ‖Δsample‖² = σ²·‖Δv‖² = (σ²/α²)·‖Δε‖².

The velocity u = ε − x0 is dx_t/ds of a flow x_t = (1 − s)·x0 + s·ε (2209.03003). From x_t = (α + σ)·x0 + σ·u it gives
x0 on any schedule: ‖Δx0‖² = σ²/(α + σ)²·‖Δu‖². Where α² + σ² = 1 it is that of the straight line from image to noise on
which x_t/(α + σ) lies, and v, which is dx_t/dφ for σ = sin φ, that of the circle on which x_t itself does.
"""

from collections.abc import Callable
from typing import Literal, Protocol, get_args

import numpy as np
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError

Prediction = Literal["epsilon", "v_prediction", "sample", "velocity"]
PREDICTIONS: tuple[Prediction, ...] = get_args(Prediction)
#: Prediction of a model: one of them, or three by a head each.
ModelPrediction = Literal["epsilon", "v_prediction", "sample", "velocity", "mixed"]

#: Predictions whose definition here does not need α² + σ² = 1.
ON_ANY_SCHEDULE: tuple[ModelPrediction, ...] = ("epsilon", "sample", "velocity", "mixed")

#: Order of the output channels of a model with three heads, where α² + σ² = 1, and of one on a flow.
HEADS: tuple[Prediction, ...] = ("sample", "v_prediction", "epsilon")
HEADS_OF_FLOW: tuple[Prediction, ...] = ("sample", "velocity", "epsilon")

#: Share of the mean variance added to the diagonal before inverting: heads may agree entirely.
RIDGE = 1e-3


def add_noise(x0: Tensor, epsilon: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """x_t = α·x0 + σ·ε."""
    return alpha * x0 + sigma * epsilon


def target(prediction: str, x0: Tensor, epsilon: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """Target of a network of this prediction, same shape as x0."""
    match prediction:
        case "epsilon":
            return epsilon
        case "v_prediction":
            return alpha * epsilon - sigma * x0
        case "sample":
            return x0
        case "velocity":
            return epsilon - x0
    raise unknown(prediction)


def to_x0(prediction: str, output: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The x0 that a network's answer amounts to."""
    match prediction:
        case "epsilon":
            return (x_t - sigma * output) / alpha
        case "v_prediction":
            return alpha * x_t - sigma * output
        case "sample":
            return output
        case "velocity":
            return (x_t - sigma * output) / (alpha + sigma)
    raise unknown(prediction)


def to_epsilon(x0: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The noise in x_t, given its x0."""
    return (x_t - alpha * x0) / sigma


def x0_error_factor(prediction: str, alpha: Tensor, sigma: Tensor) -> Tensor:
    """Factor from a squared error of the prediction to one of x0, same shape as alpha."""
    match prediction:
        case "epsilon":
            return sigma**2 / alpha**2
        case "v_prediction":
            return sigma**2
        case "sample":
            return alpha * 0 + 1
        case "velocity":
            return (sigma / (alpha + sigma)) ** 2
    raise unknown(prediction)


def levels_of(snr: Tensor) -> tuple[Tensor, Tensor]:
    """(α, σ) of signal-to-noise ratios on a schedule with α² + σ² = 1."""
    sigma = (1 + snr).rsqrt()
    return snr.sqrt() * sigma, sigma


def epsilon_error_factor(prediction: str, snr: Tensor) -> Tensor:
    """Factor from a squared error of the prediction to one of ε: a function of the SNR alone on any schedule."""
    levels = levels_of(snr)
    return x0_error_factor(prediction, *levels) / x0_error_factor("epsilon", *levels)


def unknown(prediction: str) -> UserError:
    """The refusal of a name that is no prediction."""
    return UserError(f"prediction '{prediction}' is unknown; allowed: {', '.join(PREDICTIONS)}")


def check_prediction(prediction: str, schedule: NoiseSchedule, learned_variance: bool) -> None:
    """Raise UserError where a network's prediction or its learned variance have no meaning on a schedule."""
    if prediction not in (*PREDICTIONS, "mixed"):
        raise unknown(prediction)
    if schedule.preserves_variance:
        return
    if prediction not in ON_ANY_SCHEDULE:
        what, allowed = f"prediction: '{prediction}'", ", ".join(ON_ANY_SCHEDULE)
    elif learned_variance:
        what, allowed = "variance: 'learned'", "fixed"
    else:
        return
    raise UserError(f"{what} has no meaning on schedule '{schedule.name}', where α² + σ² is not 1; allowed: {allowed}")


def heads_of(schedule: NoiseSchedule) -> tuple[Prediction, ...]:
    """Prediction of each of a network's three heads."""
    return HEADS if schedule.preserves_variance else HEADS_OF_FLOW


def squared_error(truth: Tensor, answer: Tensor) -> Tensor:
    """Mean over all values of an image of the squared difference, [B]."""
    return (truth - answer).float().square().flatten(1).mean(1)


class Answer(Protocol):
    """Output of a network: `sample` [B, C, H, W], with C channels for all its answers."""

    sample: Tensor


#: (noisy images [B, C, H, W], timesteps [B]) → Answer: a network, or one bound to its condition.
NetworkFunction = Callable[..., Answer]


def head_weights(select: str, products: np.ndarray) -> np.ndarray:
    """Weights of the heads' x0, [T, 3] in the order of HEADS.

    Args:
        select: `profile` (the head with the least held-out error), `blend` (least variance of the
            weighted sum, w = C⁻¹1/(1ᵀC⁻¹1)), `blend_diagonal` (inverse error alone), or one head.
        products: C, [T, 3, 3], held-out mean products of the heads' x0-errors.

    Raises:
        UserError: an unknown selection, or errors that are no numbers.
    """
    if len(wrong := np.flatnonzero(~np.isfinite(products).all(axis=(1, 2)))):
        raise UserError(f"the heads' errors are NaN or infinite at t = {wrong[0]}; lower the learning rate")
    errors = np.diagonal(products, axis1=1, axis2=2)
    if select in HEADS:
        return np.tile(np.eye(len(HEADS))[HEADS.index(select)], (len(products), 1))
    match select:
        case "profile":
            return np.eye(len(HEADS))[errors.argmin(1)]
        case "blend_diagonal":
            return (1 / errors) / (1 / errors).sum(1, keepdims=True)
        case "blend":
            ridge = RIDGE * errors.mean(1)[:, None, None] * np.eye(len(HEADS))
            solved = np.linalg.solve(products + ridge, np.ones((len(products), len(HEADS), 1)))[..., 0]
            return solved / solved.sum(1, keepdims=True)
    raise UserError(f"selection '{select}' is unknown; allowed: profile, blend, blend_diagonal, {', '.join(HEADS)}")
