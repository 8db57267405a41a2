"""Generators that depend on a key of small integers alone: (seed, stream, step …).

No random state is stored: the key alone gives the same numbers. Streams separate draws that share a seed.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch


class Stream(IntEnum):
    """One number for each purpose; never reused."""

    SHUFFLE = 0
    TIMESTEPS = 1
    NOISE = 2
    FLIPS = 3
    DROPOUT = 4
    INITIAL_WEIGHTS = 5
    PROFILE_IMAGES = 6
    PROFILE_NOISE = 7
    SAMPLE_START = 8
    SAMPLE_ADDED = 9
    PRUNING = 10
    CLASSIFIER = 11
    HEADS = 12
    MEASURED = 13
    GRADIENTS = 14
    CONSISTENCY = 15
    AUTOENCODER = 17
    SAMPLE_LABELS = 18
    LABEL_DROPOUT = 19
    CONFLICTS = 20
    FLOOR = 21
    VALIDATION_TIMESTEPS = 22
    VALIDATION_NOISE = 23


def numpy_generator(*key: int) -> np.random.Generator:
    """Make a NumPy generator of a key."""
    return np.random.default_rng(key)


def torch_generator(device: torch.device | str, *key: int) -> torch.Generator:
    """Make a torch generator of a key, on a device."""
    return torch.Generator(device).manual_seed(torch_seed(*key))


def noise_of(shape: Sequence[int], ids: Sequence[int], *key: int) -> torch.Tensor:
    """N(0, 1) for each image from its own generator, so that batches may be cut anywhere, [B, *shape] on the CPU."""
    return torch.stack([torch.randn(tuple(shape), generator=torch_generator("cpu", *key, i)) for i in ids])


def torch_seed(*key: int) -> int:
    """Derive 63 bits from a key."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
