"""PCGrad (2001.06782) between clusters of timesteps, as ANT (2306.00354) has it.

Of two clusters whose gradients point against each other, each one's gives up what it would take from the other. It
costs a backward pass a cluster, of its own images (no more images than without, in smaller portions), and the memory
of (K + 2)·|θ| numbers for K clusters. Processes and accumulated parts add up each cluster's gradient before that.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives.objective import Losses


def projected(gradients: Tensor, generator: np.random.Generator) -> Tensor:
    """The sum of gradients without their conflicts, [P].

    Where g_i·g_j < 0, g_i loses its part along g_j, g_i −= (g_i·g_j/‖g_j‖²)·g_j, for each j in an order drawn anew for
    each i; g_j is as it came (2001.06782, algorithm 1).

    Args:
        gradients: [K, P].
        generator: of the orders.
    """
    found = torch.zeros_like(gradients[0])
    for i, own in enumerate(gradients):
        left = own.clone()
        for j in generator.permutation(len(gradients)):
            product = left @ gradients[j]
            if j != i and product < 0:
                left -= product / gradients[j].square().sum() * gradients[j]
        found += left
    return found


class ClusterGradients:
    """Gradients of a step, a cluster of timesteps each.

    Args:
        clusters: of the timesteps.
        parameters: of the network.
    """

    def __init__(self, clusters: Partition, parameters: Sequence[Tensor]) -> None:
        self.parameters = parameters
        self.members = torch.from_numpy(clusters.members).to(parameters[0].device)
        self.gradients = parameters[0].new_zeros(len(clusters), sum(one.numel() for one in parameters))

    def backward(self, batch: Batch, backward: Callable[[Batch], Losses]) -> Losses:
        """Losses of a batch, whose images go forwards and backwards cluster by cluster.

        Args:
            batch: or a part of one.
            backward: adds the gradient of a batch's loss to the parameters', and gives its losses.
        """
        members = self.members[batch.timesteps]
        weighted, terms = torch.zeros_like(batch.weights), dict[str, Tensor]()
        for cluster in members.unique().tolist():
            index = (members == cluster).nonzero().flatten()
            losses = backward(batch.chosen(index))
            weighted[index] = losses.weighted.detach().to(weighted)
            share = len(index) / len(members)
            terms = {name: terms.get(name, 0) + share * value for name, value in losses.terms.items()}
            self.take(cluster)
        return Losses(weighted, terms)

    def take(self, cluster: int) -> None:
        """Move the parameters' gradients to those of a cluster."""
        for held, parameter in zip(self.split(self.gradients[cluster]), self.parameters, strict=True):
            if parameter.grad is not None:
                held += parameter.grad.flatten()
                parameter.grad = None

    def split(self, vector: Tensor) -> Sequence[Tensor]:
        """A vector of all parameters [P] in its parameters' parts."""
        return vector.split([one.numel() for one in self.parameters])

    def combine(self, generator: np.random.Generator, mean: Callable[[Tensor], Tensor]) -> None:
        """Give the parameters the sum without conflicts; `mean` averages a tensor over all processes."""
        found = projected(mean(self.gradients), generator)
        for part, parameter in zip(self.split(found), self.parameters, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        self.gradients.zero_()
