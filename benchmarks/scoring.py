"""Scoring: images a second through Inception, and the seconds of each distance between two sets of features.

Weights and features are random. The network is torchvision's Inception v3, which has the operations of
torch-fidelity's and needs no file.
"""

from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate
from torchvision.models import inception_v3

from benchmarks.timing import in_turns
from unequal.evaluation.distances import (
    Features,
    RealFeatures,
    frechet_distance,
    kernel_distance,
    precision_and_recall,
)
from unequal.evaluation.features import Network, batch_by_batch
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.sets import ImageSet

#: Pixels a side of Inception's input.
SIDE = 299
NEIGHBOURHOOD = 3


def inception(device: torch.device) -> Network:
    """Features [B, 1000] of uint8 images [B, 3, H, W]."""
    net = inception_v3(weights=None, init_weights=False, transform_input=False).to(device).eval()

    def answer(images: Tensor) -> Tensor:
        return net(interpolate(images.float() / 127.5 - 1, (SIDE, SIDE), mode="bilinear"))

    return answer


def extract(network: Network, images: np.ndarray, device: torch.device) -> None:
    """Compute the features of all images, as a score does."""
    extractor = BuiltExtractor(kind="inception", features=2048, weights=None, weights_sha256=None)
    for _ in batch_by_batch(ImageSet.of(images), network, extractor, device):
        pass


def measure(device: torch.device, images: int, count: int, features: int, subset: int, rounds: int) -> dict[str, Any]:
    """Seconds of each part in every round.

    Args:
        images: of 3 × 32 × 32 values, that go through Inception.
        count: feature vectors of each set.
        features: numbers in each.
        subset: images a subset of KID.
    """
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (images, 3, 32, 32), dtype=np.uint8)
    ours, real = (random.standard_normal((count, features), dtype=np.float32) for _ in range(2))
    known = RealFeatures.around(real, NEIGHBOURHOOD, device)
    times = in_turns(
        {
            "features": partial(extract, inception(device), pixels, device),
            "covariance": partial(Features.of, ours, device),
            "reference": partial(RealFeatures.around, real, NEIGHBOURHOOD, device),
            "FID": partial(frechet_distance, Features.of(ours, device), known, device),
            "KID": partial(kernel_distance, ours, real, subset, device),
            "precision and recall": partial(precision_and_recall, ours, known, NEIGHBOURHOOD, device),
        },
        rounds,
        device,
    )
    return {
        "images_per_second": images / median(times["features"]),
        "seconds": times,
        "count": count,
        "features": features,
        "kid_subset": subset,
        "rounds": rounds,
    }
