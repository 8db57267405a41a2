"""The lowest loss that any network can have on a finite training set, in closed form (also in 2506.13763).

With equally likely images x_i the posterior mean of x0 given x_t is a softmax over the images,
x0*(x_t) = Σ_i softmax_i(−‖x_t − α·x_i‖²/(2σ²))·x_i, and no denoiser has a smaller squared error on
average. What a network loses beyond that is its excess; to remove all of it is to memorise.
"""

import torch
from torch import Tensor


def optimal_x0(x_t: Tensor, images: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """Posterior mean of x0 for equally likely images.

    Args:
        x_t: [B, …], noisy images.
        images: [N, …], the whole data set.
        alpha, sigma: scalars of the timestep.

    Returns:
        [B, …] in float64: distances are divided by σ², as small as 1e-4, and need the digits.
    """
    noisy = x_t.flatten(1).double()
    clean = images.flatten(1).double()
    # ‖x_t − α·x_i‖² without ‖x_t‖², which every image shares and softmax ignores.
    distances = alpha**2 * clean.square().sum(1) - 2 * alpha * noisy @ clean.T
    weights = torch.softmax(-distances / (2 * sigma**2), dim=1)
    return (weights @ clean).reshape(x_t.shape)


def optimal_loss(x0: Tensor, epsilon: Tensor, images: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """ε-space squared error of the best denoiser, SNR·‖x0 − x0*‖²/D, for each image, [B]."""
    x_t = alpha * x0.double() + sigma * epsilon.double()
    best = optimal_x0(x_t, images, alpha, sigma)
    return (alpha / sigma) ** 2 * (x0.double() - best).square().flatten(1).mean(1)
