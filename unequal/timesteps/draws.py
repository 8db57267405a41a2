"""Draws of a batch of timesteps from a density: one timestep after another, evenly spread, by strata, in pairs.

Each draw is a function of a generator and of probabilities [T], and remembers nothing.
"""

from dataclasses import dataclass

import numpy as np

from unequal.timesteps.partition import Partition


class Independent:
    """Every timestep of a batch is drawn on its own; the base of all draws."""

    def __call__(self, batch_size: int, generator: np.random.Generator, density: np.ndarray) -> np.ndarray:
        """Timesteps [B], int64, from probabilities [T] that sum to 1."""
        return generator.choice(len(density), size=batch_size, p=density)

    def marginal(self, density: np.ndarray) -> np.ndarray:
        """Probability of each timestep at any place of a batch, [T]."""
        return density


class LowDiscrepancy(Independent):
    """One uniform offset and equally spaced points, read through the inverse of the density's sum (VDM, 2107.00630)."""

    def __call__(self, batch_size: int, generator: np.random.Generator, density: np.ndarray) -> np.ndarray:
        points = (generator.random() + np.arange(batch_size)) / batch_size % 1
        found = np.searchsorted(np.cumsum(density), points, side="right")
        return generator.permutation(np.minimum(found, len(density) - 1))


@dataclass(frozen=True)
class Stratified(Independent):
    """Equally many timesteps from each part, uniform within it: the density `equal_over` these parts.

    Where the batch is no multiple of the number of parts, the remainder goes to parts drawn without replacement, so
    that over batches every part gets its share.
    """

    parts: Partition

    def __call__(self, batch_size: int, generator: np.random.Generator, density: np.ndarray) -> np.ndarray:
        count = len(self.parts)
        whole, rest = divmod(batch_size, count)
        chosen = np.concatenate([np.repeat(np.arange(count), whole), generator.permutation(count)[:rest]])
        return self.parts.draw(generator.permutation(chosen), generator)


@dataclass(frozen=True)
class Mirrored(Independent):
    """Timesteps in pairs, one drawn and the other its mirror image (SpeeD, 2405.17403); see `densities.mirror`.

    The marginal is that of drawn and mirrored timesteps: on the linear schedule SpeeD's 5 : 1 below 0.7·T become
    10.4 : 1.

    Attributes:
        mirror: the second one's timestep for each of the first's, [T].
    """

    mirror: np.ndarray

    def __call__(self, batch_size: int, generator: np.random.Generator, density: np.ndarray) -> np.ndarray:
        first = generator.choice(len(density), size=-(-batch_size // 2), p=density)
        # Shuffled, so that of an odd batch either half may be the smaller one.
        return generator.permutation(np.concatenate([first, self.mirror[first]]))[:batch_size]

    def marginal(self, density: np.ndarray) -> np.ndarray:
        return (density + np.bincount(self.mirror, weights=density, minlength=len(density))) / 2


def equal_over(parts: Partition) -> np.ndarray:
    """Probabilities [T] that give every part the same mass, uniform within it."""
    return np.repeat(1 / (len(parts) * parts.lengths), parts.lengths)
