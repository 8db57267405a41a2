"""Each method's order against what is known by hand: silent parts go first, products are the products."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from search_place import DIFF_PRUNING, MAGNITUDE, METHODS, TAYLOR
from torch import Tensor

from unequal.data.prepared import tensor_of, to_model_range
from unequal.experts import importance
from unequal.experts.anatomy import Anatomy, Unit
from unequal.experts.fit import remove
from unequal.experts.importance import (
    Target,
    ascending_gradient,
    batch_gradient,
    differentiable,
    importance_of,
    ranked,
    weighty,
)
from unequal.models.denoiser import Denoiser
from unequal.models.pruned import Block
from unequal.randomness import Stream, noise_of, numpy_generator, uniform_of
from unequal.training.batches import draw_at, image_indices

BuildNet = Callable[..., UNet2DModel]
MakeTarget = Callable[..., Target]
MIDDLE = "mid_block.attentions.0"


def order(method: Any, make_target: MakeTarget, net: UNet2DModel, **changes: Any) -> list[Unit]:
    return ranked(method, make_target(net, **changes), Anatomy(net))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.method)
@pytest.mark.parametrize("heads", [1, 3])
def test_a_method_leaves_the_network_as_it_is(tiny_net, make_target, method, heads):
    net = tiny_net(heads=heads).requires_grad_(False)
    found = order(method, make_target, net, prediction="mixed" if heads == 3 else "epsilon")
    assert len({unit.importance for unit in found}) > 10
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in net.parameters())
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), tiny_net(heads=heads).parameters(), strict=True))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.method)
def test_a_method_is_a_function_of_its_seed(tiny_net, make_target, method):
    net = tiny_net()
    anatomy = Anatomy(net)
    first, again, other = (ranked(method, make_target(net, seed=seed), anatomy) for seed in (0, 0, 1))
    assert first == again
    assert (first == other) == (method == MAGNITUDE)


@torch.no_grad()
def silence_head(net: UNet2DModel, rows: slice, only_output: bool) -> None:
    attention = net.get_submodule(MIDDLE)
    attention.to_out[0].weight[:, rows] = 0
    if not only_output:
        for layer in (attention.to_q, attention.to_k, attention.to_v):
            layer.weight[rows] = 0
            layer.bias[rows] = 0


def outputs(net: UNet2DModel) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(torch.linspace(-1, 1, 128).reshape(2, 1, 8, 8), torch.tensor([1, 40])).sample


def test_magnitude_takes_silent_heads_first_and_nobody_hears_it(tiny_net, make_target):
    net = tiny_net()
    silence_head(net, slice(8, 12), only_output=False)
    first = order(MAGNITUDE, make_target, net)[0]
    assert first == Unit(f"{MIDDLE}.to_q", (8, 9, 10, 11), 0.0, Block(2, "mid_block"))
    torch.testing.assert_close(outputs(remove(net, [first]).net), outputs(net))


def product_by_hand(net: UNet2DModel) -> torch.Tensor:
    """A residual block's first convolution: Σ|w·g|, mean over all weights' layers, relative to the mean channel."""
    block = net.get_submodule("down_blocks.0.resnets.0")
    outputs = [(layer.weight * layer.weight.grad).abs().flatten(1) for layer in (block.conv1, block.time_emb_proj)]
    inputs = (block.conv2.weight * block.conv2.weight.grad).abs().transpose(0, 1).flatten(1)
    mean = torch.stack([product.sum(1) for product in (*outputs, inputs)]).mean(0)
    return mean / mean.mean()


@pytest.mark.parametrize("method", [TAYLOR, DIFF_PRUNING], ids=lambda method: method.method)
def test_importance_is_the_product_of_weights_and_gradients(tiny_net, make_target, method):
    net = tiny_net()
    target, anatomy = make_target(net), Anatomy(net)
    with differentiable(net):
        importance = importance_of(method, target)
        layer = anatomy.layers[anatomy.index["down_blocks.0.resnets.0.conv1"]]
        torch.testing.assert_close(importance(layer.group), product_by_hand(net))


#: ᾱ of the record's schedule: DDPM's, with 50 timesteps.
RATIO = torch.cumprod(1 - torch.linspace(2e-3, 0.4, 50, dtype=torch.float64), 0).float()


def mean_error(net: UNet2DModel, x0: Tensor, epsilon: Tensor, t: Tensor) -> Tensor:
    ratio = RATIO[t].reshape(-1, 1, 1, 1)
    answer = net(ratio.sqrt() * x0 + (1 - ratio).sqrt() * epsilon, t).sample
    return (answer - epsilon).square().mean()


def assert_same_gradients(net: UNet2DModel, by_hand: UNet2DModel) -> None:
    for (name, one), other in zip(net.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-6, msg=name)


@pytest.mark.parametrize(("timesteps", "low", "high"), [("group", 5, 20), ("all", 0, 49)])
def test_a_batchs_gradient(tiny_net, make_target, prepared, timesteps, low, high, monkeypatch):
    monkeypatch.setattr(importance, "PIXELS_AT_ONCE", 3 * 64)
    net, by_hand = tiny_net(), tiny_net()
    batch_gradient(make_target(net, seed=3), timesteps, 8)  # type: ignore[arg-type]
    images = tensor_of(prepared.train)
    x0 = to_model_range(images[image_indices(3, 0, 8, len(images))])
    epsilon = noise_of((1, 8, 8), range(8), 3, Stream.NOISE, 0)
    t = low + (uniform_of(range(8), 3, Stream.TIMESTEPS, 0) * (high - low + 1)).long()
    mean_error(by_hand, x0, epsilon, t).backward()
    assert_same_gradients(net, by_hand)


def test_on_a_flow_the_gradient_is_that_of_errors_of_the_velocity(tiny_net, make_target, prepared):
    """At times s = (t + ½)/T, which a network gets as 1000·s."""
    net, by_hand = tiny_net(), tiny_net()
    target = make_target(net, seed=3, first=5, last=7, schedule="flow", prediction="velocity")
    assert ascending_gradient(target, "group", 4, 0.001) == 7
    generator = numpy_generator(3, Stream.PRUNING, 5)
    batch = draw_at(tensor_of(prepared.train), np.repeat([5, 6, 7], 4), generator, torch.device("cpu"))
    times = (batch.timesteps + 0.5) / 50
    s = times.reshape(-1, 1, 1, 1)
    answer = by_hand((1 - s) * batch.x0 + s * batch.epsilon, 1000 * times).sample
    (3 * (answer - (batch.epsilon - batch.x0)).square().mean()).backward()
    assert_same_gradients(net, by_hand)


def test_the_sum_over_rising_timesteps(tiny_net, make_target, prepared, monkeypatch):
    monkeypatch.setattr(importance, "PIXELS_AT_ONCE", 10 * 64)
    net, by_hand = tiny_net(), tiny_net()
    assert ascending_gradient(make_target(net, seed=3, first=5, last=11), "group", 4, 0.001) == 11
    for part in ([5, 6], [7, 8], [9, 10], [11]):
        generator = numpy_generator(3, Stream.PRUNING, part[0])
        batch = draw_at(tensor_of(prepared.train), np.repeat(part, 4), generator, torch.device("cpu"))
        for i in range(len(part)):
            mine = slice(4 * i, 4 * i + 4)
            mean_error(by_hand, batch.x0[mine], batch.epsilon[mine], batch.timesteps[mine]).backward()
    assert_same_gradients(net, by_hand)


@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_the_sum_ends_before_the_loss_is_a_share_of_its_maximum(tiny_net, make_target, at_once, monkeypatch):
    """With L_t = (t + 1)⁻², L_t > 0.05·L_5 until t = 25, as 6²/0.05 = 26.8²."""
    monkeypatch.setattr(importance, "PIXELS_AT_ONCE", at_once * 64)
    seen: list[int] = []

    class Objective:
        def __call__(self, denoiser: Denoiser, batch: object) -> object:
            t = batch.timesteps  # type: ignore[attr-defined]
            weighted = (t + 1.0) ** -2 * denoiser.net.conv_out.bias.sum().exp() ** 0
            weighted.register_hook(lambda grad: seen.extend(t[grad > 0].tolist()))
            return type("Losses", (), {"weighted": weighted})()

    monkeypatch.setattr(Target, "objective", lambda _: Objective())
    assert ascending_gradient(make_target(tiny_net(), first=5, last=49), "group", 1, 0.05) == 25
    assert seen == list(range(5, 26))


def test_a_loss_that_rises_again_does_not_count():
    losses = torch.tensor([1.0, 4.0, 0.5, 0.3, 9.0])
    assert weighty(losses, 0.0, 0.1) == 3
    assert weighty(losses, 0.0, 0.01) == 5
    assert weighty(losses, 20.0, 0.1) == 0
    assert weighty(torch.tensor([3.0]), 0.0, 0.99) == 1
