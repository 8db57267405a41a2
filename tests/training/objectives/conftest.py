"""The batch that objectives are tried on."""

import pytest
import torch

from unequal.training.batches import Batch


@pytest.fixture
def batch() -> Batch:
    """Five images with noise, timesteps, importance weights and labels."""
    generator = torch.Generator().manual_seed(0)
    x0 = torch.rand(5, 1, 4, 4, generator=generator) * 2 - 1
    epsilon = torch.randn(5, 1, 4, 4, generator=generator)
    timesteps, weights = torch.tensor([0, 7, 20, 35, 49]), torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0])
    return Batch(x0, epsilon, timesteps, weights, torch.tensor([0, 2, 1, 0, 2]))
