"""What came first among many, tried once more in a few blocks that had no say in that."""

import numpy as np

from unequal.evidence.blocks import Blocks, Estimate


def once_more(study: Blocks, pairs: np.ndarray) -> Estimate:
    """A difference of pairs ln(endpoint) [blocks, 2], arm and control.

    A few blocks tell a difference, but hardly its scatter: that is the study's own, of all pooled arms, where the pairs
    do not scatter more.
    """
    differences = pairs[:, 0] - pairs[:, 1]
    squared = max(2 * study.pooled_variance, float(differences.var(ddof=1))) / len(differences)
    return Estimate(float(differences.mean()), squared**0.5, study.freedom)
