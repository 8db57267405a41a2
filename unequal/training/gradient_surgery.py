"""Gradient surgery for clusters of timesteps whose gradients conflict (ANT, 2306.00354): PCGrad and Nash bargaining.

PCGrad (2001.06782) removes from each of two opposed gradients the part along the other. In the Nash bargain
(2202.01017) all clusters gain: the sum of the logarithms of their gains is the largest of all steps of its length.

Both cost a backward pass a cluster, of its own images (no more images than without, in smaller portions), and the
memory of (K + 2)·|θ| numbers for K clusters. Processes and accumulated parts add up each cluster's gradient first.
Both are linear combinations of the gradients, whose coefficients follow from the products GGᵀ [K, K] alone. No value is
read back from the device.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unequal.timesteps.batches import to_device
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import Losses

#: Products GGᵀ of gradients [K, K] in float64, and a generator of whatever is drawn → their coefficients [K].
Combine = Callable[[Tensor, np.random.Generator], Tensor]

#: Share of a unit gradient's squared norm, added so that clusters in full conflict have a bargain too: no step.
RIDGE = 1e-8
#: Newton's steps of a bargain. Gradients of 20 clusters that share a direction or oppose it take up to 24, two exactly
#: opposed ones 36.
NEWTON_STEPS = 40


def projected(products: Tensor, generator: np.random.Generator) -> Tensor:
    """Coefficients of the sum of gradients without their conflicts, [K].

    Where g_i·g_j < 0, g_i loses its part along g_j, g_i −= (g_i·g_j/‖g_j‖²)·g_j, for each j in an order drawn anew for
    each i; g_j is as it came (2001.06782, algorithm 1).
    """
    count = len(products)
    orders = np.stack([generator.permutation(count) for _ in range(count)])
    rows, left = torch.arange(count, device=products.device), identity(products)
    for others in to_device(orders, products.device).unbind(1):
        along = (left * products[others]).sum(1)
        conflicts = (along < 0) & (others != rows)
        left[rows, others] -= torch.where(conflicts, along / products.diagonal()[others], 0)
    return left.sum(0)


def bargained(products: Tensor, generator: np.random.Generator) -> Tensor:
    """α > 0 [K] with GGᵀα = 1/α: where ½αᵀGGᵀα − Σ ln α is least (2202.01017, claim 3.1).

    The step Σ_k α_k·g_k has the length √K, whatever those of the gradients are. The function is strictly convex and
    self-concordant, so that Newton's steps, shortened by 1 + their decrement, stay above 0 and arrive. They are of a
    fixed number, since to ask whether they have arrived would be to wait for the device.

    Args:
        products: [K, K], float64; clusters without images, whose products are 0, take no part.
        generator: not asked.
    """
    lengths = products.diagonal().sqrt()
    lengths = torch.where(lengths > 0, lengths, 1)
    absent = torch.diag(products.diagonal() == 0)
    cosines = products / torch.outer(lengths, lengths) + RIDGE * identity(products) + absent
    weights = torch.full_like(lengths, len(lengths) ** -0.5)
    for _ in range(NEWTON_STEPS):
        slope = cosines @ weights - 1 / weights
        step, _ = torch.linalg.solve_ex(cosines + torch.diag(weights**-2), slope)
        weights = weights - step / (1 + (slope @ step).clamp(min=0).sqrt())
    return weights / lengths


def identity(products: Tensor) -> Tensor:
    """The identity matrix of the same size, kind and device."""
    return torch.eye(len(products), dtype=products.dtype, device=products.device)


#: How gradients of clusters are made one, by the name under which a recipe chooses it.
COMBINATIONS: Mapping[str, Combine] = {"pcgrad": projected, "nash": bargained}


class Surgery(NamedTuple):
    """Clusters of timesteps whose gradients are computed separately, and how they are combined."""

    clusters: Partition
    combine: Combine

    def of(self, parameters: Sequence[Tensor]) -> "ClusterGradients":
        return ClusterGradients(self, parameters)


class ClusterGradients:
    """Gradients of a step, a cluster of timesteps each."""

    def __init__(self, surgery: Surgery, parameters: Sequence[Tensor]) -> None:
        self.parameters, self.combined = parameters, surgery.combine
        self.members = surgery.clusters.members
        self.gradients = parameters[0].new_zeros(len(surgery.clusters), sum(one.numel() for one in parameters))

    def backward(self, batch: Batch, timesteps: np.ndarray, backward: Callable[[Batch], Losses]) -> Losses:
        """Losses of a batch, whose images go forwards and backwards cluster by cluster.

        Args:
            batch: or a part of one.
            timesteps: of the batch [B], in host memory.
            backward: adds the gradient of a batch's loss to the parameters', and gives its losses.
        """
        members = self.members[timesteps]
        weighted, terms = torch.zeros_like(batch.weights), dict[str, Tensor]()
        for cluster in np.unique(members).tolist():
            places = np.flatnonzero(members == cluster)
            index = to_device(places, weighted.device)
            losses = backward(batch.chosen(index))
            weighted[index] = losses.weighted.detach().to(weighted)
            share = len(places) / len(members)
            terms = {name: terms.get(name, 0) + share * value for name, value in losses.terms.items()}
            self.take(cluster)
        return Losses(weighted, terms)

    def take(self, cluster: int) -> None:
        """Move the parameters' gradients to those of a cluster."""
        parts = zip(self.split(self.gradients[cluster]), self.parameters, strict=True)
        found = [(held, one.grad.flatten()) for held, one in parts if one.grad is not None]
        if found:
            torch._foreach_add_(*map(list, zip(*found, strict=True)))
        for one in self.parameters:
            one.grad = None

    def split(self, vector: Tensor) -> Sequence[Tensor]:
        """A vector of all parameters [P] in its parameters' parts."""
        return vector.split([one.numel() for one in self.parameters])

    def combine(self, generator: np.random.Generator, mean: Callable[[Tensor], Tensor]) -> None:
        """Give the parameters what becomes of all gradients; `mean` averages a tensor over all processes."""
        gradients = mean(self.gradients)
        coefficients = self.combined((gradients @ gradients.T).double(), generator)
        combined = coefficients.to(gradients) @ gradients
        for part, parameter in zip(self.split(combined), self.parameters, strict=True):
            parameter.grad = part.view_as(parameter).clone()
        self.gradients.zero_()
