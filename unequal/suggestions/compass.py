"""The least value of a smooth function of one number or two, without derivatives."""

from collections.abc import Callable

import numpy as np

#: Length of a step below which the search ends.
FINEST = 1e-5


def compass_search(function: Callable[[np.ndarray], float], start: np.ndarray, step: float = 0.5) -> np.ndarray:
    """Where a function is least near `start`: go to the best neighbour a step away, or halve the step.

    It converges on smooth functions (Kolda, Lewis and Torczon, SIAM Review 45, 2003), to a minimum that may be local.

    Args:
        function: of a point [n]; infinite where there is no value.
        start: [n].
        step: of the first neighbours, in every direction.

    Returns:
        The best point found, [n].
    """
    directions = np.concatenate([np.eye(len(start)), -np.eye(len(start))])
    here, least = start, function(start)
    while step > FINEST:
        values = [function(here + step * one) for one in directions]
        best = int(np.argmin(values))
        if values[best] < least:
            here, least = here + step * directions[best], values[best]
        else:
            step /= 2
    return here
