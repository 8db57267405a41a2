"""Gradient surgery for clusters of timesteps whose gradients conflict (ANT, 2306.00354): PCGrad and Nash bargaining.

PCGrad (2001.06782) removes from each of two opposed gradients the part along the other. In the Nash bargain
(2202.01017) all clusters gain: the sum of the logarithms of their gains is the largest of all steps of its length.

Both cost a backward pass a cluster, of its own images (no more images than without, in smaller portions), and the
memory of (K + 2)·|θ| numbers for K clusters. Processes and accumulated parts add up each cluster's gradient first.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import Losses

#: Gradients [K, P], and a generator of whatever is drawn → what the parameters are moved by, [P].
Combine = Callable[[Tensor, np.random.Generator], Tensor]

#: Of the product of a unit gradient with itself: added, so that clusters in full conflict have a bargain too, to stay.
RIDGE = 1e-8
#: Newton's decrement at which a bargain is struck, and steps in which it always has been.
STRUCK, MOST_STEPS = 1e-9, 200


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


def bargained(gradients: Tensor, generator: np.random.Generator) -> Tensor:
    """Σ_k α_k·g_k [P] by the weights of `bargaining_weights`; its length is √K, whatever those of the gradients are.

    Args:
        gradients: [K, P]; those of clusters without images, which are 0, take no part.
        generator: not asked.
    """
    present = gradients[gradients.any(1)]
    weights = bargaining_weights((present @ present.T).double().cpu().numpy())
    return torch.from_numpy(weights).to(present) @ present


def bargaining_weights(products: np.ndarray) -> np.ndarray:
    """α > 0 with GGᵀα = 1/α, from GGᵀ [K, K]: where ½αᵀGGᵀα − Σ ln α is least (2202.01017, claim 3.1).

    That function is strictly convex and self-concordant, so that Newton's steps, shortened by 1 + their decrement, stay
    above 0 and always arrive.
    """
    lengths = np.sqrt(np.diag(products))
    cosines = products / np.outer(lengths, lengths) + RIDGE * np.eye(len(lengths))
    weights = np.full(len(lengths), len(lengths) ** -0.5)
    for _ in range(MOST_STEPS):
        slope = cosines @ weights - 1 / weights
        step = np.linalg.solve(cosines + np.diag(weights**-2.0), slope)
        decrement = float(np.sqrt(slope @ step))
        weights = weights - step / (1 + decrement)
        if decrement < STRUCK:
            break
    return np.asarray(weights / lengths)


#: How gradients of clusters are made one, by the name under which a recipe chooses it.
COMBINATIONS: Mapping[str, Combine] = {"pcgrad": projected, "nash": bargained}


class Surgery(NamedTuple):
    """Clusters of timesteps whose gradients are computed separately, and how they are combined."""

    clusters: Partition
    combine: Combine

    def of(self, parameters: Sequence[Tensor]) -> "ClusterGradients":
        """Gradients of the parameters of a network, by cluster."""
        return ClusterGradients(self, parameters)


class ClusterGradients:
    """Gradients of a step, a cluster of timesteps each.

    Args:
        surgery: clusters of the timesteps, and how their gradients are combined.
        parameters: of the network.
    """

    def __init__(self, surgery: Surgery, parameters: Sequence[Tensor]) -> None:
        self.parameters, self.combined = parameters, surgery.combine
        self.members = torch.from_numpy(surgery.clusters.members).to(parameters[0].device)
        self.gradients = parameters[0].new_zeros(len(surgery.clusters), sum(one.numel() for one in parameters))

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
        """Give the parameters what becomes of all gradients; `mean` averages a tensor over all processes."""
        found = self.combined(mean(self.gradients), generator)
        for part, parameter in zip(self.split(found), self.parameters, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        self.gradients.zero_()
