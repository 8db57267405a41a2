"""The methods that give each channel an importance; the least important ones are pruned first.

All values are relative to the mean of their layer, so that layers can be compared.
"""

import torch

from unequal.pruning.anatomy import Anatomy
from unequal.pruning.gradients import ascending_gradient, batch_gradient, differentiable
from unequal.pruning.target import Target
from unequal.pruning.units import Importance, Unit, units_by
from unequal.settings import pruning as settings


def ranked(method: settings.Importance, target: Target, anatomy: Anatomy) -> list[Unit]:
    """All units that may go, the least important first.

    Args:
        method: how importance is told.
        target: network, timesteps and images that it is told by.
        anatomy: of the target's network.
    """
    with differentiable(target.net):
        return units_by(importance_of(method, target), anatomy)


def importance_of(method: settings.Importance, target: Target) -> Importance:
    """The importance by that method; where it needs gradients, they are left in the network."""
    import torch_pruning as tp

    match method:
        case settings.Random():
            generator = torch.Generator().manual_seed(target.seed)
            return lambda group: torch.rand(len(group[0].idxs), generator=generator)
        case settings.Magnitude():
            return tp.importance.GroupMagnitudeImportance(p=2, normalizer="mean")
        case settings.Taylor():
            batch_gradient(target, method.timesteps, method.images)
        case settings.DiffPruning():
            ascending_gradient(target, method.timesteps, method.images, method.threshold)
    return tp.importance.GroupTaylorImportance(normalizer="mean")
