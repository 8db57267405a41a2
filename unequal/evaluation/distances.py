"""Distances between features of two sets of images, in parts and on any device: FID, KID, precision and recall.

Features stay in the host's memory or are mapped from disk. A device holds the parts that are compared, and two matrices
of F × F numbers. Sets whose tiles are compared with each other go to a GPU once, where its free memory allows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unequal.models.weights import all_fit

#: Features whose products are added to a covariance together.
ROWS = 4096
#: Features of each set whose distances are computed together on a CPU, and on a GPU, which has more to do at once.
TILE, GPU_TILE = 1024, 8192
#: Random subsets of KID, and the seed that draws them, as in torch-fidelity.
SUBSETS, SUBSETS_SEED = 100, 2020


@dataclass(frozen=True)
class Features:
    """Features of a set of images [N, F] (float32), their mean [F] and their covariance [F, F] (float64)."""

    features: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, device: torch.device) -> "Features":
        """Compute the mean and the covariance of features, two or more, which may be mapped from disk."""
        mean: np.ndarray = features.mean(axis=0, dtype=np.float64)
        centre = torch.from_numpy(mean).to(device)
        products = centre.new_zeros(len(mean), len(mean))
        for part in parts(torch.from_numpy(features), ROWS, device):
            centred = part.double() - centre
            products.addmm_(centred.T, centred)
        return cls(features, mean, (products / (len(features) - 1)).cpu().numpy())


@dataclass(frozen=True)
class RealFeatures(Features):
    """Features of real images, with what every comparison with them needs.

    Attributes:
        root: R [F, directions] of the covariance RRᵀ, as many columns as it has directions.
        radii: distance of each image from its n-th neighbour, [N].
    """

    root: np.ndarray
    radii: np.ndarray

    @classmethod
    def around(cls, features: np.ndarray, neighbourhood: int, device: torch.device) -> "RealFeatures":
        """Compute what is compared with, for precision and recall by the neighbour of that number."""
        known = Features.of(features, device)
        variances, directions = torch.linalg.eigh(torch.from_numpy(known.covariance).to(device))
        present = variances > variances[-1] * len(variances) * torch.finfo(variances.dtype).eps
        root = (directions[:, present] * variances[present].sqrt()).cpu().numpy()
        (where,) = resident(features, device=device)
        nearest = radii(where, neighbourhood, tile(device), device).cpu().numpy()
        return cls(known.features, known.mean, known.covariance, root, nearest)


def tile(device: torch.device) -> int:
    """Number of features of each set whose distances are computed together."""
    return TILE if device.type == "cpu" else GPU_TILE


def parts(features: Tensor, size: int, device: torch.device) -> Iterator[Tensor]:
    """Move features [N, F] to a device, [size, F] at a time."""
    for part in features.split(size):
        yield part.to(device)


def resident(*sets: np.ndarray, device: torch.device) -> list[Tensor]:
    """Sets of features [N, F] on a device where all fit into its memory, else where they are."""
    fit = all_fit(sum(features.nbytes for features in sets), device)
    return [torch.from_numpy(features).to(device if fit else "cpu") for features in sets]


def frechet_distance(ours: Features, real: RealFeatures, device: torch.device) -> float:
    """Fréchet distance of two normal distributions (FID): ‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2·(Σ₁Σ₂)^½).

    With Σ₂ = RRᵀ, Σ₁Σ₂ has the eigenvalues of RᵀΣ₁R. That matrix is symmetric, and R has as many columns as Σ₂ has
    directions, so that fewer images than features are no special case.
    """
    tables = ours.covariance, real.covariance, real.root
    first, second, root = (torch.from_numpy(table).to(device) for table in tables)
    shared = torch.linalg.eigvalsh(root.T @ first @ root).clamp(min=0).sqrt().sum()
    gap = ours.mean - real.mean
    return float(gap @ gap) + float(first.trace() + second.trace() - 2 * shared)


def kernel_distance(ours: np.ndarray, real: np.ndarray, size: int, device: torch.device) -> tuple[float, float]:
    """Squared distance by cubic kernels (KID), unbiased: mean and standard deviation over random subsets.

    Args:
        ours, real: features [n, F] and [N, F].
        size: of a subset of each, 2 or more.
        device: where the products are computed, in float64.
    """
    random, distances = np.random.RandomState(SUBSETS_SEED), []
    for _ in range(SUBSETS):
        x, y = (
            torch.from_numpy(features[random.choice(len(features), size, replace=False)]).to(device).double()
            for features in (ours, real)
        )
        pairs = sum(kernel_sum(z, z) - kernel(z.square().sum(1), z.shape[1]).sum() for z in (x, y))
        distances.append(pairs / (size * (size - 1)) - 2 * kernel_sum(x, y) / size**2)
    distances = torch.stack(distances).cpu().numpy()
    return float(distances.mean()), float(distances.std())


def kernel_sum(x: Tensor, y: Tensor) -> Tensor:
    """Sum of the kernels of all pairs of features [n, F] and [N, F]."""
    return torch.stack(
        [kernel(some @ other.T, x.shape[1]).sum() for some in x.split(TILE) for other in y.split(TILE)]
    ).sum()


def kernel(products: Tensor, features: int) -> Tensor:
    """KID's kernel (x·y/F + 1)³ of scalar products."""
    return (products / features + 1) ** 3


def precision_and_recall(
    ours: np.ndarray, real: RealFeatures, neighbourhood: int, device: torch.device
) -> tuple[float, float]:
    """Precision and recall (1904.06991) of features [n, F] against real ones.

    Args:
        neighbourhood: that of the real ones' radii: the neighbour whose distance is the radius around an image.
    """
    size, sets = tile(device), resident(ours, real.features, device=device)
    our_radii = radii(sets[0], neighbourhood, size, device)
    real_radii = torch.from_numpy(real.radii).to(device)
    precise, recalled = (torch.zeros(len(features), dtype=torch.bool, device=device) for features in sets)
    for i, some in enumerate(parts(sets[0], size, device)):
        rows = slice(i * size, i * size + len(some))
        for j, others in enumerate(parts(sets[1], size, device)):
            columns = slice(j * size, j * size + len(others))
            distances = torch.cdist(some, others)
            precise[rows] |= (distances <= real_radii[columns]).any(1)
            recalled[columns] |= (distances <= our_radii[rows, None]).any(0)
    return float(precise.double().mean()), float(recalled.double().mean())


def radii(features: Tensor, neighbourhood: int, size: int, device: torch.device) -> Tensor:
    """Distance [N] of each feature vector [N, F] from its n-th neighbour, itself not counted."""
    farthest = []
    for some in parts(features, size, device):
        nearest = some.new_empty(len(some), 0)
        for others in parts(features, size, device):
            distances = torch.cat([nearest, torch.cdist(some, others)], dim=1)
            nearest = distances.topk(min(neighbourhood + 1, distances.shape[1]), largest=False).values
        farthest.append(nearest[:, -1])
    return torch.cat(farthest)
