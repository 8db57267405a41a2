"""The lowest loss that any network can have on a finite training set, in closed form (also in 2506.13763).

With equally likely images x_i the posterior mean of x0 given x_t is a softmax over the images,
x0*(x_t) = Σ_i softmax_i(−‖x_t − α·x_i‖²/(2σ²))·x_i, and no denoiser has a smaller squared error on
average. What a network loses beyond that is its excess; to remove all of it is to memorise.

Of a set too large for that, cDOL (2506.13763) takes N' of the N images, always with that of which x_t was made,
counted as 1/C of one, C = 4·N/N'.
"""

import math

import torch
from torch import Tensor

#: C of cDOL, times N'/N: with 1 instead of 4·N/N' estimates are too low, with ∞ too high.
CORRECTION = 4.0


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


def sampled_x0(
    x_t: Tensor, x0: Tensor, images: Tensor, others: Tensor, correction: float, alpha: Tensor, sigma: Tensor
) -> Tensor:
    """Posterior mean of x0 from a sample of the data and the image that x_t was made of.

    That image lies nearest of all and would weigh too much among few: it is counted as 1/C of one. Left out (C = ∞), it
    would be missed where it is the only one near.

    Args:
        x_t, x0: [B, …], noisy images and what they were made of.
        images: [N', …], the sample.
        others: [B, N'] bool, which of them are not that image.
        correction: C.
        alpha, sigma: scalars of the timestep.

    Returns:
        [B, …] in float64.
    """
    noisy, own, clean = x_t.flatten(1).double(), x0.flatten(1).double(), images.flatten(1).double()
    of_others = alpha**2 * clean.square().sum(1) - 2 * alpha * noisy @ clean.T
    of_own = alpha**2 * own.square().sum(1) - 2 * alpha * (noisy * own).sum(1)
    logits = torch.cat([-of_own[:, None], -of_others], dim=1) / (2 * sigma**2)
    logits[:, 0] -= math.log(correction)
    logits[:, 1:].masked_fill_(~others, -torch.inf)
    weights = torch.softmax(logits, dim=1)
    return (weights[:, :1] * own + weights[:, 1:] @ clean).reshape(x_t.shape)


def sampled_loss(
    x0: Tensor, epsilon: Tensor, images: Tensor, others: Tensor, correction: float, alpha: Tensor, sigma: Tensor
) -> Tensor:
    """The corrected estimate cDOL of the best denoiser's ε-loss, SNR·(‖x0‖² − ‖x̂0‖²)/D, for each image, [B].

    It is the mean over images that estimates J* = E‖x0‖² − E‖E[x0|x_t]‖² (2506.13763); single values may be below 0.
    Arguments as of `sampled_x0`, with ε instead of x_t.
    """
    x_t = alpha * x0.double() + sigma * epsilon.double()
    best = sampled_x0(x_t, x0, images, others, correction, alpha, sigma)
    return (alpha / sigma) ** 2 * (x0.double().square() - best.square()).flatten(1).mean(1)
