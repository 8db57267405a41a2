"""Which of three heads speaks at a timestep, as weights that sum to 1."""

import numpy as np

from unequal.diffusion.predictions import HEADS
from unequal.errors import UserError

#: Share of the mean variance added to the diagonal before inverting: heads may agree entirely.
RIDGE = 1e-3


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
