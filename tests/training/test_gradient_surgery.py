"""PCGrad and the bargain: known examples, what defines each, and gradients that are those of the clusters."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.gradient_surgery import ClusterGradients, Combine, Surgery, bargained, projected
from unequal.training.objectives import Losses

SURGERY_OF_HALVES = Surgery(Partition([(0, 4), (5, 9)]), projected)
seeds = st.integers(0, 2**32 - 1)


def rows(*found: tuple[float, ...]) -> Tensor:
    return torch.tensor(found, dtype=torch.float64)


def combined(combine: Combine, gradients: Tensor, generator: np.random.Generator) -> Tensor:
    return combine(gradients @ gradients.T, generator) @ gradients


@pytest.mark.parametrize(
    ("combine", "gradients", "expected", "atol"),
    [
        (projected, [(1, 0), (-1, 1)], (0.5, 1.5), 1e-7),
        (projected, [(0, 0), (1, 2), (0, 0)], (1, 2), 1e-7),  # clusters without images
        (bargained, [(3, 0), (-1, 0)], (0, 0), 1e-3),  # against each other there is no way to go
        (bargained, [(0, 0), (3, 4), (0, 0)], (0.6, 0.8), 1e-7),
    ],
)
def test_known_combinations(combine, gradients, expected, atol):
    found = combined(combine, rows(*gradients), np.random.default_rng(0))
    torch.testing.assert_close(found, rows(expected)[0], atol=atol, rtol=1e-7)


def left_of(own: np.ndarray, others: list[np.ndarray]) -> np.ndarray:
    for other in others:
        own = own - min(0.0, own @ other) / (other @ other) * other
    return own


@given(seeds, st.integers(2, 8))
def test_orders_are_drawn_one_after_the_other_for_each_gradient(seed, count):
    """Algorithm 1 of 2001.06782, gradient by gradient."""
    gradients, generator = np.random.default_rng(seed).normal(size=(count, 5)), np.random.default_rng(seed + 1)
    expected = np.zeros(5)
    for i, own in enumerate(gradients):
        expected += left_of(own, [gradients[j] for j in generator.permutation(count) if j != i])
    found = combined(projected, torch.from_numpy(gradients), np.random.default_rng(seed + 1))
    np.testing.assert_allclose(found, expected, atol=1e-11)


def test_two_gradients_at_60_degrees_have_the_known_bargain():
    weights = bargained(rows((1, 0.5), (0.5, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(weights, [0.8165, 0.8165], atol=5e-5)


@given(seeds, st.integers(1, 20), st.floats(0, 10))
def test_in_a_bargain_each_gains_in_inverse_proportion_to_its_weight(seed, count, shared):
    """However much of their direction the gradients share, or oppose."""
    generator = np.random.default_rng(seed)
    gradients = generator.normal(size=(count, 200)) + shared * generator.normal(size=200) * generator.choice(
        [-1, 1], size=(count, 1)
    )
    gradients *= np.exp(generator.normal(scale=4, size=(count, 1)))
    products = torch.from_numpy(gradients @ gradients.T)
    weights = bargained(products, generator)
    torch.testing.assert_close(products @ weights, 1 / weights, rtol=1e-4, atol=0)
    np.testing.assert_allclose(np.linalg.norm(weights.numpy() @ gradients), count**0.5, rtol=1e-4)


class Line(torch.nn.Module):
    """A loss of w·t + b for an image at t, with a constant beside."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))

    def backward(self, batch: Batch) -> Losses:
        loss = (self.w * batch.timesteps + self.b) * batch.weights * batch.x0.flatten()
        loss.sum().backward()
        return Losses(loss, {"count": torch.tensor(float(len(loss)))})


def test_parts_of_a_batch_add_up_in_their_clusters():
    net = Line()
    tasks = ClusterGradients(SURGERY_OF_HALVES, tuple(net.parameters()))
    images, timesteps = torch.tensor([1.0, -1.0, 2.0, -3.0]), torch.tensor([1, 7, 4, 9])
    batch = Batch(images.reshape(4, 1, 1, 1), images.reshape(4, 1, 1, 1), timesteps, torch.ones(4))
    for part in (slice(0, 3), slice(3, 4)):
        one = Batch(batch.x0[part], batch.epsilon[part], timesteps[part], torch.ones(4)[part])
        losses = tasks.backward(one, timesteps[part].numpy(), net.backward)
        torch.testing.assert_close(losses.weighted, (images * (timesteps + 1))[part])
    # In order: Σ x·t and Σ x over each cluster's images.
    torch.testing.assert_close(tasks.gradients, torch.tensor([[9.0, 3.0], [-34.0, -4.0]]))
    expected = combined(projected, tasks.gradients.double(), np.random.default_rng(1)).float()
    tasks.combine(np.random.default_rng(1), lambda one: one)
    torch.testing.assert_close(torch.cat([net.w.grad, net.b.grad]), expected)
    assert not tasks.gradients.any()


def test_terms_are_means_over_the_images():
    """Three images of one cluster and one of the other, counted in their own passes."""
    net, ones = Line(), torch.ones(4, 1, 1, 1)
    tasks = ClusterGradients(SURGERY_OF_HALVES, tuple(net.parameters()))
    timesteps = torch.tensor([0, 1, 2, 8])
    losses = tasks.backward(Batch(ones, ones, timesteps, torch.ones(4)), timesteps.numpy(), net.backward)
    assert float(losses.terms["count"]) == 3 * 0.75 + 1 * 0.25
