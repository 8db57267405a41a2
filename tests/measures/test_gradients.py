"""Gradients and their moments: against stacked gradients, and against populations that are known whole."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unequal.measures import gradients
from unequal.measures.gradients import GradientSample, Moments, flat_gradients, gram, squared_norms

pytestmark = pytest.mark.slow

CELLS, COUNT, FOLDS = 3, 8, 4


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def losses(net: nn.Module, inputs: Tensor) -> Iterator[Tensor]:
    for one in inputs:
        yield net(one).square().sum()


def stacked(net: nn.Module, inputs: Tensor) -> Tensor:
    rows = []
    for loss in losses(net, inputs):
        net.zero_grad()
        loss.backward()
        rows.append(torch.cat([parameter.grad.flatten() for parameter in net.parameters()]))
    net.zero_grad()
    return torch.stack(rows)


def inputs() -> Tensor:
    return torch.randn(COUNT, 3, generator=torch.Generator().manual_seed(1))


def sample_of(vectors: np.ndarray, folds: int) -> GradientSample:
    """From gradients [C, n, P], every `folds`-th in one fold, of which both lengths and means are taken."""
    folded = np.stack([vectors[:, fold::folds] for fold in range(folds)], 1)
    means = folded.mean(2).reshape(-1, vectors.shape[2])
    return GradientSample(np.square(folded).sum(3), (means @ means.T).reshape((len(vectors), folds) * 2))


def test_gradients_are_those_of_backward():
    """Gradients of parameters that a loss does not touch are 0."""
    net, expected = network(), stacked(network(), inputs())
    parameters = [*net.parameters(), nn.Parameter(torch.ones(4))]
    found = flat_gradients(losses(net, inputs()), parameters)
    torch.testing.assert_close(found, torch.cat([expected, torch.zeros(COUNT, 4)], 1))
    torch.testing.assert_close(squared_norms(losses(net, inputs()), parameters), expected.double().square().sum(1))
    assert all(parameter.grad is None for parameter in parameters)


def test_inner_products_do_not_depend_on_the_chunks(monkeypatch):
    vectors = torch.randn(4, 23)
    whole = gram(vectors)
    monkeypatch.setattr(gradients, "CHUNK", 7)
    torch.testing.assert_close(gram(vectors), whole)
    torch.testing.assert_close(whole, vectors.double() @ vectors.double().T)


def test_a_cells_own_product_takes_pairs_of_different_folds():
    vectors = np.random.default_rng(0).normal(size=(2, 6, 5)) + np.array([[[1.0]], [[-0.5]]])
    moments, fold = sample_of(vectors, 3).moments(), np.arange(6) % 3
    for cell in range(2):
        pairs = [vectors[cell, i] @ vectors[cell, j] for i in range(6) for j in range(6) if fold[i] != fold[j]]
        assert moments.products[cell, cell] == pytest.approx(np.mean(pairs))
        assert moments.second[cell] == pytest.approx(np.square(vectors[cell]).sum(1).mean())
    cross = [vectors[0, i] @ vectors[1, j] for i in range(6) for j in range(6)]
    np.testing.assert_allclose([moments.products[0, 1], moments.products[1, 0]], np.mean(cross))


def test_cosines_of_clear_gradients_are_those_of_their_means():
    directions = np.array([[1.0, 0, 0], [1, 1, 0], [-1, 0, 0]])
    noise = np.random.default_rng(2).normal(size=(CELLS, 4000, 3))
    moments = sample_of(5 * directions[:, None] + noise, FOLDS).moments()
    np.testing.assert_allclose(moments.cosines, [[1, 0.707, -1], [0.707, 1, -0.707], [-1, -0.707, 1]], atol=0.01)


def test_a_mean_that_is_lost_in_noise_has_no_cosine():
    moments = Moments(np.ones(2), np.array([[-0.1, 0.2], [0.2, 1.0]]))
    assert np.isnan(moments.cosines[0]).all() and np.isnan(moments.cosines[0, 1])
    assert moments.cosines[1, 1] == 1
