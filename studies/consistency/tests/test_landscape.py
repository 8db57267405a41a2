"""Curvature against dense Hessians and known spectra, losses of fixed draws, barriers against closed forms."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, hessian

from studies.consistency.landscape import (
    FixedLoss,
    Loss,
    barrier,
    fixed_batches,
    hessian_product,
    largest_eigenvalue,
    losses_on_line,
    power_iteration,
)
from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.weights import loss_weights
from unequal.training.batches import Batch
from unequal.training.objectives import SingleHead

SEEDS = st.integers(0, 2**32 - 1)
#: A network, inputs and targets.
Regression = tuple[nn.Module, Tensor, Tensor]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def symmetric(eigenvalues: list[float], seed: int = 0) -> Tensor:
    size = len(eigenvalues)
    drawn = torch.from_numpy(np.random.default_rng(seed).normal(size=(size, size)))
    vectors = torch.linalg.qr(drawn).Q
    return vectors @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ vectors.T


def quadratic(matrix: Tensor) -> tuple[list[nn.Parameter], Loss]:
    """½·θᵀAθ, with θ in two parameters of different shapes, at a random point."""
    size = len(matrix)
    drawn = torch.randn(size, generator=generator(), dtype=torch.float64)
    parameters = [nn.Parameter(drawn[:2].clone()), nn.Parameter(drawn[2:].clone().reshape(1, -1))]

    def loss() -> Tensor:
        theta = torch.cat([p.flatten() for p in parameters])
        return theta @ matrix @ theta / 2

    return parameters, loss


@pytest.fixture
def small() -> Regression:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2), nn.Sigmoid()).double()
    return net, torch.randn(16, 2).double(), torch.rand(16, 2).double()


def dense_hessian(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    names, values = zip(*net.named_parameters(), strict=True)
    sizes = [value.numel() for value in values]

    def loss(flat: Tensor) -> Tensor:
        parts = [part.reshape(v.shape) for part, v in zip(flat.split(sizes), values, strict=True)]
        return (functional_call(net, dict(zip(names, parts, strict=True)), x) - y).square().mean()

    return hessian(loss)(torch.cat([value.detach().flatten() for value in values]))


def test_the_largest_eigenvalue_of_a_network_is_that_of_its_dense_hessian(small: Regression) -> None:
    net, x, y = small
    halves = [lambda: (net(x[:8]) - y[:8]).square().sum() / 32, lambda: (net(x[8:]) - y[8:]).square().sum() / 32]
    found = largest_eigenvalue(halves, list(net.parameters()), 300, generator())
    expected = torch.linalg.eigvalsh(dense_hessian(net, x, y))
    assert found.eigenvalue == pytest.approx(float(expected[-1]), rel=1e-6)
    assert len(found.quotients) == len(found.residuals) == 300


def test_a_network_with_attention_has_second_derivatives(tiny_net: Callable[..., UNet2DModel]) -> None:
    """H·v is the change of the gradient along v."""
    net = tiny_net().double().eval()
    x, t = torch.randn(2, 1, 8, 8, generator=generator(), dtype=torch.float64), torch.tensor([3, 40])
    parameters = list(net.parameters())
    vector = [torch.randn(p.shape, generator=generator(1), dtype=p.dtype) for p in parameters]

    def loss() -> Tensor:
        return net(x, t).sample.square().mean()

    def gradient(step: float) -> list[Tensor]:
        with torch.no_grad():
            for p, v in zip(parameters, vector, strict=True):
                p.add_(v, alpha=step)
        found = list(torch.autograd.grad(loss(), parameters))
        with torch.no_grad():
            for p, v in zip(parameters, vector, strict=True):
                p.sub_(v, alpha=step)
        return found

    product = hessian_product([loss], parameters, vector)
    step = 1e-6
    for exact, after, before in zip(product, gradient(step), gradient(-step), strict=True):
        torch.testing.assert_close(exact, (after - before) / (2 * step), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("eigenvalues", "expected", "shift"),
    [
        ([5.0, 3.0, 1.0, 0.1], 5.0, 0.0),
        ([5.0, -4.0, 1.0, 0.1], 5.0, 0.0),
        # The largest magnitude is a negative eigenvalue's.
        ([2.0, -6.0, 1.0, 0.1], 2.0, -6.0),
        ([-1.0, -6.0, -2.0, -3.0], -1.0, -6.0),
        ([0.0, 0.0, 0.0], 0.0, 0.0),
        ([7.0, 7.0, 7.0], 7.0, 0.0),
    ],
)
def test_known_spectra(eigenvalues: list[float], expected: float, shift: float) -> None:
    parameters, loss = quadratic(symmetric(eigenvalues))
    found = largest_eigenvalue([loss], parameters, 200, generator())
    assert found.eigenvalue == pytest.approx(expected, abs=1e-6)
    assert found.shift == pytest.approx(shift, abs=1e-6)
    assert found.residuals[-1] < 1e-3


@given(SEEDS, st.lists(st.floats(-10, 10), min_size=2, max_size=6))
def test_an_eigenvalue_lies_within_the_residual(seed: int, eigenvalues: list[float]) -> None:
    matrix = symmetric(eigenvalues, seed)
    start = [torch.randn(len(eigenvalues), generator=generator(seed), dtype=torch.float64)]
    found = power_iteration(lambda vector: [matrix @ vector[0]], start, 8)
    for quotient, residual in zip(found.quotients, found.residuals, strict=True):
        assert np.abs(np.array(eigenvalues) - quotient).min() <= residual + 1e-9


def line(function: Callable[[Tensor], Tensor], start: Tensor, end: Tensor, points: int) -> tuple[Tensor, nn.Parameter]:
    parameter = nn.Parameter(torch.full_like(start, 0.25))
    return losses_on_line(lambda: function(parameter)[None], [parameter], [start], [end], points), parameter


def test_a_line_through_a_quadratic_is_a_parabola() -> None:
    matrix = symmetric([3.0, 1.0, -2.0])
    a, b = torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]], dtype=torch.float64)
    losses, parameter = line(lambda p: p @ matrix @ p / 2, a, b, 5)
    s = torch.linspace(0, 1, 5, dtype=torch.float64)
    expected = [(a + share * (b - a)) @ matrix @ (a + share * (b - a)) / 2 for share in s]
    torch.testing.assert_close(losses[:, 0], torch.stack(expected))
    assert (parameter == 0.25).all()


def test_ends_are_the_losses_of_the_two_models_and_the_net_stays_as_it_was(small: Regression) -> None:
    net, x, y = small
    before = [p.detach().clone() for p in net.parameters()]
    start, end = ([torch.randn(p.shape, generator=generator(i), dtype=p.dtype) for p in before] for i in (1, 2))

    def losses() -> Tensor:
        return (net(x) - y).square().mean(1)

    found = losses_on_line(losses, list(net.parameters()), start, end, points=3)
    assert all(torch.equal(p, kept) for p, kept in zip(net.parameters(), before, strict=True))
    assert not found.requires_grad
    for values, on_line in zip((start, end), (found[0], found[-1]), strict=True):
        state = dict(zip(net.state_dict(), values, strict=True))
        assert torch.equal((functional_call(net, state, x) - y).square().mean(1), on_line)


def test_the_barrier_of_a_double_well() -> None:
    """(θ² − 1)² + ½ from −1 to 1: ½ at both ends, 1½ between them, three times as much."""
    theta = nn.Parameter(torch.tensor([0.25]))
    ends = [torch.tensor([-1.0])], [torch.tensor([1.0])]
    losses = losses_on_line(lambda: (theta**2 - 1).square() + 0.5, [theta], *ends, 11)
    found = barrier(losses.expand(-1, 4))
    assert (found.share, found.height, found.stderr) == pytest.approx((0.5, 2.0, 0.0))


def test_the_error_of_a_barrier_is_the_spread_over_repeated_draws() -> None:
    random = np.random.default_rng(0)

    def draw() -> Tensor:
        hard = random.lognormal(size=200)
        middle = 1.5 * hard * random.uniform(0.8, 1.2, 200)
        return torch.from_numpy(np.stack([hard, middle, hard]))

    found = [barrier(draw()) for _ in range(400)]
    heights = [one.height for one in found]
    assert np.mean(heights) == pytest.approx(0.5, abs=0.01)
    assert np.mean([one.stderr for one in found]) == pytest.approx(np.std(heights), rel=0.1)


T, DRAWS = 50, 20
SCHEDULE = NoiseSchedule.linear(T)
OBJECTIVE = SingleHead("epsilon", SCHEDULE, loss_weights("min_snr", "epsilon", SCHEDULE.snr, gamma=5.0))


@pytest.fixture
def draw(prepared: PreparedData) -> Callable[..., list[Batch]]:
    def make(size: int = DRAWS, seed: int = 0) -> list[Batch]:
        return fixed_batches(tensor_of(prepared.train), T, DRAWS, size, seed, False, torch.device("cpu"))

    return make


@pytest.mark.parametrize("size", [1, 7, 100])
def test_draws_may_be_cut_anywhere(
    size: int, draw: Callable[..., list[Batch]], tiny_net: Callable[..., UNet2DModel]
) -> None:
    net = tiny_net().eval()
    whole, cut = (FixedLoss(net, OBJECTIVE, draw(n)) for n in (DRAWS, size))
    assert len(cut.batches) == len(cut.parts()) == -(-DRAWS // size)
    torch.testing.assert_close(cut.losses(), whole.losses())
    torch.testing.assert_close(sum(part() for part in cut.parts()), whole.losses().mean())


def test_timesteps_are_spread_evenly_and_draws_follow_the_seed(draw: Callable[..., list[Batch]]) -> None:
    timesteps = draw()[0].timesteps
    assert set(np.diff(timesteps.sort().values)) <= {2, 3}
    assert torch.equal(timesteps, draw()[0].timesteps)
    assert not torch.equal(draw()[0].epsilon, draw(seed=1)[0].epsilon)
