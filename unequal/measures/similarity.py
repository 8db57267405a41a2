"""Similarity of two sets of images: mean squared error, cosine, structural similarity.

Tensors in, tensors out. Images are [B, C, H, W] in [−1, 1]; every figure is one a pair, [B].
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

#: Side of SSIM's window in pixels: a uniform one, as small images have no room for a Gaussian of 11.
SSIM_WINDOW = 7
#: Stabilisers of SSIM, (0.01·L)² and (0.03·L)², for intensities of range L = 1 (Wang et al. 2004, section III.B).
SSIM_C1, SSIM_C2 = 0.01**2, 0.03**2
#: Elements of the table of distances that `nearest` holds at a time.
DISTANCES_AT_ONCE = 1 << 24


def mse(a: Tensor, b: Tensor) -> Tensor:
    """Mean squared difference over pixels; 0 for equal images."""
    return (a - b).square().flatten(1).mean(1)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Cosine of the angle between two images as vectors; 1 for equal images."""
    return functional.cosine_similarity(a.flatten(1), b.flatten(1))


def ssim(a: Tensor, b: Tensor) -> Tensor:
    """Structural similarity (Wang et al. 2004, eq. 13), its mean over windows and channels; 1 for equal images.

    Windows lie wholly within the image and weigh their pixels equally; variances are those of a sample,
    divided by n − 1. Means are compared as intensities, which start at 0: values are brought to [0, 1].
    """
    side = min(SSIM_WINDOW, *a.shape[2:])
    unbiased = side**2 / (side**2 - 1)
    a, b = (a + 1) / 2, (b + 1) / 2

    def mean(values: Tensor) -> Tensor:
        return functional.avg_pool2d(values, side, stride=1)

    def covariance(x: Tensor, y: Tensor) -> Tensor:
        return unbiased * (mean(x * y) - mean(x) * mean(y))

    luminance = (2 * mean(a) * mean(b) + SSIM_C1) / (mean(a) ** 2 + mean(b) ** 2 + SSIM_C1)
    structure = (2 * covariance(a, b) + SSIM_C2) / (covariance(a, a) + covariance(b, b) + SSIM_C2)
    return (luminance * structure).flatten(1).mean(1)


MEASURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"mse": mse, "cosine": cosine, "ssim": ssim}


def similarities(a: Tensor, b: Tensor) -> dict[str, Tensor]:
    """Every measure of each pair (a_i, b_i), [B] each."""
    return {name: measure(a, b) for name, measure in MEASURES.items()}


def mismatched(images: Tensor) -> Tensor:
    """Images, each moved to its neighbour's place: paired with another set, no pair belongs together.

    Every image still takes part once, so that nothing but the pairing has changed.
    """
    return torch.roll(images, 1, dims=0)


def nearest(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest image of b [N, …] for each image of a [B, …]: its mean squared error and its index, [B] each."""
    # The quicker way by a matrix product gives no exact 0 for equal images.
    table = partial(torch.cdist, x2=b.flatten(1), compute_mode="donot_use_mm_for_euclid_dist")
    rows = max(1, DISTANCES_AT_ONCE // len(b))
    parts = [table(part).min(1) for part in a.flatten(1).split(rows)]
    distances, indices = (torch.cat(whole) for whole in zip(*parts, strict=True))
    return distances**2 / a[0].numel(), indices


def found_again(a: Tensor, b: Tensor) -> Tensor:
    """Whether b_i is the one of all b that is nearest to a_i, [B]; among B unrelated images one in B is."""
    return nearest(a, b)[1] == torch.arange(len(a), device=a.device)
