"""What a training has come to put its weight on, where a density or a weight is learned."""

import numpy as np

from unequal.timesteps.samplers import TimestepSampler
from unequal.training.objectives.objective import Objective


def emphasis_learned(sampler: TimestepSampler, objective: Objective) -> dict[str, np.ndarray]:
    """What a training has come to put its weight on where settings do not tell, [T] each.

    Returns:
        `density`, p_t, and `importance`, the sampler's factors, where it learns its density; `factors` where the
        objective learns its weights: of the losses that the sampler's factors multiply.
    """
    factors = objective.factors()
    densities = {"density": sampler.probabilities, "importance": sampler.importance(sampler.horizon)}
    drawn = densities if sampler.density_learned else {}
    return drawn if factors is None else drawn | {"factors": factors.cpu().numpy()}
