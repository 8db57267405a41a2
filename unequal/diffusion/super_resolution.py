"""Super-resolution: downsample images and enlarge them again; PSNR of the result.

A network sees the enlarged low-resolution image next to x_t. Both steps are guided-diffusion's (2105.05233): a mean
over areas, then bilinear interpolation, which never leaves the range of the image, as cubic polynomials do at edges.
"""

from torch import Tensor
from torch.nn import functional

from unequal.errors import UserError

#: 8-bit units in a unit of the model's range, [-1, 1].
UNITS = 127.5
PEAK = 255.0


def shrink(images: Tensor, factor: int) -> Tensor:
    """Mean over areas of factor × factor pixels, [B, C, H/factor, W/factor].

    Raises:
        UserError: a factor that does not divide height and width, or enlarges nothing.
    """
    height, width = images.shape[-2:]
    if factor < 2 or height % factor or width % factor:
        raise UserError(
            f"super-resolution by {factor}: images of {height} × {width} pixels; "
            "allowed: a factor of 2 or more that divides both"
        )
    return functional.avg_pool2d(images, factor)


def enlarge(images: Tensor, factor: int) -> Tensor:
    """Bilinear interpolation between the centres of pixels, [B, C, factor·H, factor·W]."""
    return functional.interpolate(images, scale_factor=factor, mode="bilinear", align_corners=False)


def blurred(images: Tensor, factor: int) -> Tensor:
    """Images [B, C, H, W] reduced to a factor-th of their resolution and enlarged to their size again."""
    return enlarge(shrink(images, factor), factor)


def psnr(images: Tensor, truth: Tensor) -> Tensor:
    """Peak signal-to-noise ratio 10·log10(255²/MSE) of each image in dB, [B], float64.

    Args:
        images, truth: [B, C, H, W] in the model's range, [-1, 1].
    """
    error = (UNITS * (images.double() - truth.double())).square().flatten(1).mean(1)
    return 10 * (PEAK**2 / error).log10()
