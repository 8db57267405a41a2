"""How much faster one training gets somewhere than another: a shift of its curve, and the last crossing of a target."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unequal.errors import UserError


class Curve(NamedTuple):
    """A training's quality: images seen at its snapshots, rising, and the figure (FID, say; above 0) at each."""

    images: Sequence[int]
    figures: Sequence[float]

    def second_half(self) -> tuple[np.ndarray, np.ndarray]:
        """ln images and ln figures at the snapshots from half of the images on.

        Raises:
            UserError: fewer than two such snapshots, images that do not rise, or figures that have no logarithm.
        """
        images, figures = np.asarray(self.images, float), np.asarray(self.figures, float)
        if images.shape != figures.shape or (np.diff(images) <= 0).any() or not (images > 0).all():
            raise UserError(
                f"a curve with figures {list(self.figures)} at images {list(self.images)}; images must rise"
            )
        if not (np.isfinite(figures) & (figures > 0)).all():
            raise UserError(f"a curve's figures {list(self.figures)} must be finite and above 0")
        late = images >= images[-1] / 2
        if late.sum() < 2:
            raise UserError(f"snapshots at {list(self.images)} images; two or more must lie in the second half")
        return np.log(images[late]), np.log(figures[late])


def log_speed_up(run: Curve, baseline: Curve) -> float:
    """ln c, where the run at n images is as good as the baseline at c·n, over the second half of both.

    There both curves are taken as straight lines of ln figure over ln images with one common slope k, the least-squares
    fit; ln c is their horizontal distance, so that exchanging the two changes its sign alone.

    Raises:
        UserError: curves that cannot be compared, or that do not fall in their second half, so that no shift fits.
    """
    curves = [curve.second_half() for curve in (run, baseline)]
    means = [(u.mean(), y.mean()) for u, y in curves]
    products = sum(((u - mu) * (y - my)).sum() for (u, y), (mu, my) in zip(curves, means, strict=True))
    slope = products / sum(((u - mu) ** 2).sum() for (u, _), (mu, _) in zip(curves, means, strict=True))
    if slope >= 0:
        raise UserError(f"the curves rise with the images (slope {slope:.3g} of ln over ln) in their second half")
    (u_run, y_run), (u_base, y_base) = means
    return float((y_run - y_base) / slope - (u_run - u_base))


def last_crossing(curve: Curve, target: float) -> float | None:
    """Images after which a training stays at the target or below; None where it ends above: it never arrives to stay.

    Between the last snapshot above the target and the next one, ln figure runs straight over ln images. A run that
    is never above it arrives with its first snapshot.
    """
    above = np.flatnonzero(np.asarray(curve.figures) > target)
    if not len(above):
        return float(curve.images[0])
    last = int(above[-1])
    if last + 1 == len(curve.images):
        return None
    figures, images = np.log(curve.figures[last : last + 2]), np.log(curve.images[last : last + 2])
    share = (np.log(target) - figures[0]) / (figures[1] - figures[0])
    return float(np.exp(images[0] + share * (images[1] - images[0])))
