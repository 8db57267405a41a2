"""Each method's order against what is known by hand: silent parts go first, products are the products."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.models.pruned import Block
from unequal.pruning.anatomy import Anatomy, Unit
from unequal.pruning.fit import remove
from unequal.pruning.importance import Target, differentiable, importance_of, ranked
from unequal.settings.pruning import DiffPruning, Magnitude, Random, Taylor

BuildNet = Callable[..., UNet2DModel]
MakeTarget = Callable[..., Target]
MIDDLE = "mid_block.attentions.0"
RANDOM, MAGNITUDE = Random(method="random"), Magnitude(method="magnitude")
TAYLOR = Taylor(method="taylor", timesteps="group", images=8)
DIFF_PRUNING = DiffPruning(method="diff_pruning", timesteps="group", images=2, threshold=0.05)
METHODS = [RANDOM, MAGNITUDE, TAYLOR, DIFF_PRUNING]


def order(method: Any, make_target: MakeTarget, net: UNet2DModel, **changes: Any) -> list[Unit]:
    return ranked(method, make_target(net, **changes), Anatomy(net))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.method)
@pytest.mark.parametrize("heads", [1, 3])
def test_a_method_leaves_the_network_as_it_is(
    tiny_net: BuildNet, make_target: MakeTarget, method: Any, heads: int
) -> None:
    net = tiny_net(heads=heads).requires_grad_(False)
    found = order(method, make_target, net, prediction="mixed" if heads == 3 else "epsilon")
    assert len({unit.importance for unit in found}) > 10
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in net.parameters())
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), tiny_net(heads=heads).parameters(), strict=True))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.method)
def test_a_method_is_a_function_of_its_seed(tiny_net: BuildNet, make_target: MakeTarget, method: Any) -> None:
    net = tiny_net()
    first, again, other = (order(method, make_target, net, seed=seed) for seed in (0, 0, 1))
    assert first == again
    assert (first == other) == (method == MAGNITUDE)


@pytest.mark.parametrize("method", [TAYLOR, DIFF_PRUNING], ids=lambda method: method.method)
def test_timesteps_are_the_groups_or_all(tiny_net: BuildNet, make_target: MakeTarget, method: Any) -> None:
    net, everywhere = tiny_net(), method.model_copy(update={"timesteps": "all"})
    assert order(method, make_target, net, first=30, last=40) != order(method, make_target, net)
    assert order(everywhere, make_target, net, first=30, last=40) == order(everywhere, make_target, net)


@torch.no_grad()
def silence_head(net: UNet2DModel, rows: slice, only_output: bool) -> None:
    """Zero what a head of the middle attention gives to the output, or all of its weights."""
    attention = net.get_submodule(MIDDLE)
    attention.to_out[0].weight[:, rows] = 0
    if not only_output:
        for layer in (attention.to_q, attention.to_k, attention.to_v):
            layer.weight[rows] = 0
            layer.bias[rows] = 0


def outputs(net: UNet2DModel) -> torch.Tensor:
    with torch.no_grad():
        return net.eval()(torch.linspace(-1, 1, 128).reshape(2, 1, 8, 8), torch.tensor([1, 40])).sample


def test_magnitude_takes_silent_heads_first_and_nobody_hears_it(tiny_net: BuildNet, make_target: MakeTarget) -> None:
    net = tiny_net()
    silence_head(net, slice(8, 12), only_output=False)
    first = order(MAGNITUDE, make_target, net)[0]
    assert first == Unit(f"{MIDDLE}.to_q", (8, 9, 10, 11), 0.0, Block(2, "mid_block"))
    torch.testing.assert_close(outputs(remove(net, [first]).net), outputs(net))


def test_magnitude_takes_silent_channels_first(tiny_net: BuildNet, make_target: MakeTarget) -> None:
    net = tiny_net()
    silent = [1, 2, 5, 6]  # one of each norm group
    resnet = net.get_submodule("down_blocks.0.resnets.0")
    with torch.no_grad():
        for layer in (resnet.conv1, resnet.time_emb_proj, resnet.norm2):
            layer.weight[silent] = 0
            layer.bias[silent] = 0
        resnet.conv2.weight[:, silent] = 0
    first = order(MAGNITUDE, make_target, net)[0]
    assert first.layer == "down_blocks.0.resnets.0.conv1"
    assert sorted(first.channels) == silent


@pytest.mark.parametrize("method", [TAYLOR, DIFF_PRUNING], ids=lambda method: method.method)
def test_gradients_see_that_nothing_depends_on_a_head(tiny_net: BuildNet, make_target: MakeTarget, method: Any) -> None:
    net = tiny_net()
    silence_head(net, slice(4, 8), only_output=True)
    first = order(method, make_target, net)[0]
    assert (first.layer, first.channels) == (f"{MIDDLE}.to_q", (4, 5, 6, 7))
    assert first.importance == pytest.approx(0, abs=1e-6)


def product_by_hand(net: UNet2DModel) -> torch.Tensor:
    """Of a residual block's first convolution: Σ|w·g|, mean over all weights' layers, relative to the mean channel."""
    block = net.get_submodule("down_blocks.0.resnets.0")
    outputs = [(layer.weight * layer.weight.grad).abs().flatten(1) for layer in (block.conv1, block.time_emb_proj)]
    inputs = (block.conv2.weight * block.conv2.weight.grad).abs().transpose(0, 1).flatten(1)
    mean = torch.stack([product.sum(1) for product in (*outputs, inputs)]).mean(0)
    return mean / mean.mean()


@pytest.mark.parametrize("method", [TAYLOR, DIFF_PRUNING], ids=lambda method: method.method)
def test_importance_is_the_product_of_weights_and_gradients(
    tiny_net: BuildNet, make_target: MakeTarget, method: Any
) -> None:
    net = tiny_net()
    target, anatomy = make_target(net), Anatomy(net)
    with differentiable(net):
        importance = importance_of(method, target)
        layer = anatomy.layers[anatomy.index["down_blocks.0.resnets.0.conv1"]]
        torch.testing.assert_close(importance(layer.group), product_by_hand(net))
