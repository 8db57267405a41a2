"""Densities over timesteps, and the two ways in which one can serve: as draws that are weighted back, or as weights.

Draws from p with the losses' weights 1/(T·p) have the expected gradient of uniform timesteps: p decides how much single
batches scatter, and nothing else. Uniform draws with the weights T·p have the expected gradient that draws from p
without weights have: p decides what is learned, and single batches scatter as they do. Held against uniform timesteps,
the one tells what less scatter is worth, the other what the shift of attention is worth that such samplers bring along.
"""

import numpy as np

from unequal.errors import UserError
from unequal.timesteps.learning import least_variance
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, uniform


class WeightedSampler(TimestepSampler):
    """Uniform timesteps, whose losses are weighted by a density.

    Args:
        target: [T], p_t, summing to 1.
    """

    def __init__(self, target: np.ndarray) -> None:
        super().__init__(uniform(len(target)))
        self.target = target

    def importance(self, images_trained: int = 0) -> np.ndarray:
        """T·p_t [T], whose mean is 1."""
        return len(self.target) * self.target


def least_variance_density(cells: Partition, second_moments: np.ndarray, uniform_share: float) -> np.ndarray:
    """p_t [T] of least variance over cells (`least_variance`), uniform within each, mixed with uniform timesteps.

    Args:
        cells: C ranges of the timesteps.
        second_moments: [C], E‖g‖² of single images' gradients in each, not negative.
        uniform_share: of uniform timesteps in the mix, above 0; importance weights are at most 1 over it.

    Raises:
        UserError: moments that are not one a cell, finite and not negative, or a share outside (0, 1].
    """
    if len(second_moments) != len(cells) or not np.isfinite(second_moments).all() or (second_moments < 0).any():
        raise UserError(f"second moments of {len(cells)} cells are as many numbers, finite and not negative")
    if not 0 < uniform_share <= 1:
        raise UserError(f"a uniform share of {uniform_share}; allowed: above 0 and at most 1")
    mixed = uniform_share * cells.shares + (1 - uniform_share) * least_variance(cells.shares, second_moments)
    return np.repeat(mixed / cells.lengths, cells.lengths)
