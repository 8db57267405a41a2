"""One network under every prediction amounts to the same x0 and ε as the formulas."""

from collections.abc import Callable
from functools import partialmethod
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from one_line import refusal
from specs import class_labels, labelled_low_resolution, low_resolution, spec_of
from torch import Tensor, nn

from unequal.diffusion.predictions import HEADS, PREDICTIONS, to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.denoiser import Denoiser
from unequal.models.folder import Heads

SCHEDULE = NoiseSchedule.linear(50)
T = torch.tensor([0, 10, 30, 49])


class Knowing(nn.Module):
    def __init__(self, x0: Tensor, epsilon: Tensor, predictions: tuple[str, ...]) -> None:
        super().__init__()
        self.x0, self.epsilon, self.predictions = x0, epsilon, predictions
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x_t: Tensor, timesteps: Tensor) -> Any:
        alpha, sigma = SCHEDULE.at(timesteps, x_t)
        truth = {
            "sample": self.x0,
            "epsilon": self.epsilon,
            "v_prediction": alpha * self.epsilon - sigma * self.x0,
            "velocity": self.epsilon - self.x0,
        }
        return SimpleNamespace(sample=torch.cat([truth[name] for name in self.predictions], dim=1))


@pytest.fixture
def draw():
    generator = torch.Generator().manual_seed(0)
    x0 = torch.rand(4, 1, 8, 8, generator=generator) * 2 - 1
    epsilon = torch.randn(4, 1, 8, 8, generator=generator)
    ratio = SCHEDULE.alphas_cumprod[T].float().reshape(-1, 1, 1, 1)
    return x0, epsilon, ratio.sqrt() * x0 + (1 - ratio).sqrt() * epsilon


@pytest.mark.parametrize("prediction", PREDICTIONS)
@pytest.mark.parametrize("variance", ["fixed", "learned"])
def test_the_truth_in_any_prediction(prediction, variance, draw):
    x0, epsilon, x_t = draw
    further = ("epsilon",) if variance == "learned" else ()  # as if the noise were what it says of the variance
    denoiser = Denoiser.of(Knowing(x0, epsilon, (prediction, *further)), spec_of(prediction, variance=variance))
    torch.testing.assert_close(denoiser.x0(x_t, T), x0, atol=1e-3, rtol=0)
    torch.testing.assert_close(denoiser.epsilon(x_t, T), epsilon, atol=1e-4, rtol=0)
    torch.testing.assert_close(denoiser.x0_of_heads(x_t, T), x0[None], atol=1e-3, rtol=0)
    if further:
        found, share = denoiser.x0_and_share(x_t, T)
        torch.testing.assert_close(found, x0, atol=1e-3, rtol=0)
        torch.testing.assert_close(share, (epsilon + 1) / 2)


@pytest.mark.parametrize("weights", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.25, 0.25), (2, -0.5, -0.5)])
def test_any_mixture_of_true_heads_is_true(weights, draw):
    x0, epsilon, x_t = draw
    denoiser = Denoiser.of(Knowing(x0, epsilon, HEADS), spec_of("mixed"), torch.tensor(weights).repeat(50, 1))
    torch.testing.assert_close(denoiser.x0(x_t, T), x0, atol=1e-3, rtol=0)
    torch.testing.assert_close(denoiser.x0_of_heads(x_t, T), x0.expand(3, -1, -1, -1, -1), atol=1e-3, rtol=0)


def test_heads_are_weighted_by_their_own_timestep(tiny_net):
    weights = torch.eye(3).repeat(17, 1)[:50]
    denoiser = Denoiser.of(tiny_net(heads=3), spec_of("mixed"), weights)
    x_t = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    heads, mixed = denoiser.x0_of_heads(x_t, T), denoiser.x0(x_t, T)
    for i, t in enumerate(T.tolist()):
        torch.testing.assert_close(mixed[i], heads[t % 3, i])


class Remembering(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads, self.seen = heads, torch.empty(0)
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images: Tensor, timesteps: Tensor) -> Any:
        self.seen = images
        return SimpleNamespace(sample=images.chunk(2, dim=1)[1].repeat(1, self.heads, 1, 1))


@pytest.mark.parametrize("prediction", [*PREDICTIONS, "mixed"])
def test_super_resolution_sees_the_image_at_low_resolution(prediction, draw):
    x0, _, x_t = draw
    net = Remembering(3 if prediction == "mixed" else 1)
    weights = torch.eye(3)[:1].repeat(50, 1) if prediction == "mixed" else None
    denoiser = Denoiser.of(net, spec_of(prediction, condition=low_resolution(4)), weights).conditioned_on(x0)
    found = denoiser.x0(x_t, T)
    low = x0.reshape(4, 1, 2, 4, 2, 4).mean((3, 5))
    seen = torch.nn.functional.interpolate(low, size=8, mode="bilinear")
    torch.testing.assert_close(net.seen, torch.cat([x_t, seen], dim=1))
    alpha, sigma = SCHEDULE.at(T, x_t)
    torch.testing.assert_close(found, to_x0("sample" if weights is not None else prediction, seen, x_t, alpha, sigma))
    torch.testing.assert_close(denoiser.epsilon(x_t, T), (x_t - alpha * found) / sigma, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("prediction", [*PREDICTIONS, "mixed"])
@pytest.mark.parametrize("labelled", [False, True])
def test_a_residual_is_predicted_around_the_enlarged_image(prediction, labelled, draw):
    x0, epsilon, x_t = draw
    seen = torch.nn.functional.interpolate(torch.nn.functional.avg_pool2d(x0, 4), size=8, mode="bilinear")
    alpha, sigma = SCHEDULE.at(T, x_t)
    knowing = Knowing(x0 - seen, epsilon, HEADS if prediction == "mixed" else (prediction,))

    def net(both: Tensor, timesteps: Tensor, class_labels: Tensor | None = None) -> Any:
        torch.testing.assert_close(both, torch.cat([alpha * (x0 - seen) + sigma * epsilon, seen], dim=1))
        assert (class_labels is not None) == labelled
        return knowing(both, timesteps)

    knowing.eval = lambda: net  # type: ignore[method-assign, assignment, return-value]
    condition = labelled_low_resolution(4, 3, residual=True) if labelled else low_resolution(4, residual=True)
    weights = torch.tensor([0.5, 0.25, 0.25]).repeat(50, 1) if prediction == "mixed" else None
    denoiser = Denoiser.of(knowing, spec_of(prediction, condition=condition), weights)
    denoiser = denoiser.conditioned_on(x0, torch.tensor([0, 2, 1, 0]) if labelled else None)
    found, answered = denoiser.epsilon_and_x0(x_t, T)
    torch.testing.assert_close(found, epsilon, atol=1e-4, rtol=0)
    torch.testing.assert_close(answered, x0, atol=1e-3, rtol=0)
    torch.testing.assert_close(denoiser.x0(x_t, T), x0, atol=1e-3, rtol=0)


X_T = torch.linspace(-1, 1, 4 * 64).reshape(4, 1, 8, 8)


def test_a_condition_belongs_to_super_resolution(tiny_net):
    plain = Denoiser.of(tiny_net(), spec_of("epsilon"))
    assert torch.equal(plain.conditioned_on(X_T).x0(X_T, T), plain.x0(X_T, T))
    assert "an unconditional model takes no low-resolution image" in refusal(plain.conditioned, X_T)
    enlarging = Denoiser.of(Remembering(1), spec_of("epsilon", condition=low_resolution(2)))
    for ask, asked in ((enlarging.x0, (X_T, T)), (enlarging.epsilon, (X_T, T)), (enlarging.conditioned, (None,))):
        assert "a model of super-resolution needs a low-resolution image" in refusal(ask, *asked)


def test_a_class_conditional_network_gets_labels(tiny_net):
    net, labels = tiny_net(condition=class_labels(3)), torch.tensor([0, 2, 1, 0])
    denoiser = Denoiser.of(net, spec_of("epsilon", condition=class_labels(3)))
    found = denoiser.conditioned_on(X_T, labels).epsilon(X_T, T)
    assert torch.equal(found, net(X_T, T, class_labels=labels).sample)
    assert not torch.equal(found, denoiser.conditioned(labels.flip(0)).epsilon(X_T, T))
    for ask, asked in ((denoiser.epsilon, (X_T, T)), (denoiser.conditioned_on, (X_T,))):
        assert "a model of 3 classes needs labels" in refusal(ask, *asked)
    plain = Denoiser.of(tiny_net(), spec_of("epsilon"))
    assert torch.equal(plain.conditioned_on(X_T, labels).epsilon(X_T, T), plain.epsilon(X_T, T))


def test_what_a_model_has_not_learned_is_refused(tiny_net):
    net = tiny_net()
    assert "has learned no variance" in refusal(Denoiser.of(net, spec_of("epsilon")).x0_and_share, X_T, T)
    assert "head weights of shape [50, 3]" in refusal(Denoiser.of, net, spec_of("epsilon"), torch.ones(50, 3) / 3)
    assert "needs head weights" in refusal(Denoiser.of(tiny_net(heads=3), spec_of("mixed")).x0, X_T, T)


def test_heads_are_selected_by_their_products(tiny_net):
    net, products = tiny_net(heads=3), torch.tensor([3.0, 1.0, 2.0], dtype=torch.float64).diag().expand(50, 3, 3)
    x_t = torch.randn(4, 1, 8, 8)
    heads = Denoiser.of(net, spec_of("mixed"), torch.ones(50, 3)).x0_of_heads(x_t, T)
    for select, expected in (("profile", heads[1]), ("sample", heads[0]), ("epsilon", heads[2])):
        chosen = Denoiser.of(net, spec_of("mixed"), Heads.selected(select, products).weights)
        torch.testing.assert_close(chosen.x0(x_t, T), expected)


class Linear(nn.Module):
    """A convolution that takes timesteps, as networks of diffusers answer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(1, 1, 3, padding=1)

    def forward(self, x_t: Tensor, timesteps: Tensor) -> Any:
        return SimpleNamespace(sample=self.layer(x_t))


def test_layers_in_bf16_answer_in_float32_within_its_precision(draw):
    torch.manual_seed(0)
    whole = Denoiser.of(Linear(), spec_of("epsilon"))
    quick = whole.accelerated("bf16", channels_last=True)
    exact, rounded = whole.answer(draw[2], T).detach(), quick.answer(draw[2], T).detach()
    assert rounded.dtype == torch.float32
    # bf16 has 8 bits: an answer differs, by less than a few parts in 2⁸.
    assert 0 < float((rounded - exact).abs().max()) < 2**-5 * float(exact.abs().max())
    assert quick.net is whole.net
    assert whole.precision is None
    assert quick.net.layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_a_network_is_compiled_once(draw, monkeypatch):
    compiled: list[nn.Module] = []

    def count(net: nn.Module) -> None:
        compiled.append(net)
        net._compiled_call_impl = net._call_impl

    monkeypatch.setattr(nn.Module, "compile", count)
    denoiser = Denoiser.of(Linear(), spec_of("epsilon"))
    for _ in range(2):
        denoiser.accelerated("fp32", compiled=True).answer(draw[2], T)
    assert compiled == [denoiser.net]


@pytest.mark.slow
def test_a_smaller_batch_is_not_compiled_for(draw, monkeypatch):
    compiled: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        compiled.append(len(graph.graph.nodes))
        return graph.forward

    monkeypatch.setattr(nn.Module, "compile", partialmethod(nn.Module.compile, backend=backend))
    torch._dynamo.reset()
    x_t, whole = draw[2], Denoiser.of(Linear(), spec_of("epsilon"))
    quick = whole.accelerated("fp32", compiled=True)
    for size, graphs in ((3, 1), (2, 1), (3, 1), (4, 2), (1, 2)):
        answer = quick.conditioned(None).answer(x_t[:size], T[:size])
        assert len(compiled) == graphs
        assert torch.equal(answer, whole.net.layer(x_t[:size]))
