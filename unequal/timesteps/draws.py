"""Draws of a batch of timesteps from a density: one timestep after another, evenly spread, by strata, in pairs.

Each draw is a function of uniform numbers, four for each place of the batch, and of probabilities [T]. It remembers
nothing. The first number chooses a timestep, the second the order, the third a timestep within a part.
"""

from dataclasses import dataclass

import numpy as np

from unequal.errors import UserError
from unequal.timesteps.partition import Partition


class Independent:
    """Every timestep of a batch is drawn on its own; the base of all draws."""

    def __call__(self, uniforms: np.ndarray, density: np.ndarray) -> np.ndarray:
        """Timesteps [B], int64, from numbers [4, B] in [0, 1) and from probabilities [T] that sum to 1."""
        return quantiles(density, uniforms[0])

    def marginal(self, density: np.ndarray) -> np.ndarray:
        """Probability of each timestep at any place of a batch, [T]."""
        return density

    def check(self, timesteps: int) -> None:
        """Raise UserError where it is of another number of timesteps."""


class LowDiscrepancy(Independent):
    """One uniform offset and equally spaced points, read through the inverse of the density's sum (VDM, 2107.00630)."""

    def __call__(self, uniforms: np.ndarray, density: np.ndarray) -> np.ndarray:
        return shuffled(quantiles(density, spaced(uniforms) / uniforms.shape[1]), uniforms)


@dataclass(frozen=True)
class Stratified(Independent):
    """Equally many timesteps from each part, uniform within it: the density `equal_over` these parts.

    Where the batch is no multiple of the number of parts, the remainder goes to equally spaced parts, so that over
    batches every part gets its share.
    """

    parts: Partition

    def check(self, timesteps: int) -> None:
        self.parts.covering(timesteps, "strata")

    def __call__(self, uniforms: np.ndarray, density: np.ndarray) -> np.ndarray:
        chosen = spaced(uniforms) * len(self.parts) // uniforms.shape[1]
        return self.parts.draw(shuffled(chosen.astype(np.int64), uniforms), uniforms[2])


@dataclass(frozen=True)
class Mirrored(Independent):
    """Timesteps in pairs, one drawn and the other its mirror image (SpeeD, 2405.17403); see `densities.mirror`.

    The marginal is that of drawn and mirrored timesteps: on the linear schedule SpeeD's 5 : 1 below 0.7·T become
    10.4 : 1.

    Attributes:
        mirror: the second one's timestep for each of the first's, [T].
    """

    mirror: np.ndarray

    def check(self, timesteps: int) -> None:
        inside = np.isin(self.mirror, np.arange(timesteps))
        if self.mirror.shape != (timesteps,) or not inside.all():
            raise UserError(f"a mirror of {len(self.mirror)} timesteps; allowed: one of 0 … {timesteps - 1} for each")

    def __call__(self, uniforms: np.ndarray, density: np.ndarray) -> np.ndarray:
        first = quantiles(density, uniforms[0, ::2])
        pairs = np.stack([first, self.mirror[first]], axis=1)
        # Either may come first: of an odd batch's last pair one is missing.
        pairs = np.where(uniforms[1, ::2, None] < 0.5, pairs, pairs[:, ::-1])
        return pairs.ravel()[: uniforms.shape[1]]

    def marginal(self, density: np.ndarray) -> np.ndarray:
        return (density + np.bincount(self.mirror, weights=density, minlength=len(density))) / 2


def quantiles(density: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The timesteps at which the sum of probabilities [T] exceeds points [n] of [0, 1), [n] int64."""
    sums = np.cumsum(density)
    return np.searchsorted(sums / sums[-1], points, side="right")


def spaced(uniforms: np.ndarray) -> np.ndarray:
    """Points [B] of [0, B) at a distance of 1, of one offset."""
    return uniforms[0, 0] + np.arange(uniforms.shape[1])


def shuffled(values: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Values [B] in random order."""
    return values[np.argsort(uniforms[1], kind="stable")]


def equal_over(parts: Partition) -> np.ndarray:
    """Probabilities [T] that give every part the same mass, uniform within it."""
    return np.repeat(1 / (len(parts) * parts.lengths), parts.lengths)
