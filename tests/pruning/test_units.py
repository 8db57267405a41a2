"""Which channels are removed together, and which of them first."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.data.pixels import tensor_of, to_model_range
from unequal.data.prepared import PreparedData
from unequal.errors import UserError
from unequal.pruning.fit import remove
from unequal.pruning.gradients import accumulate_gradients
from unequal.pruning.units import Unit, importance_of, prunable_units
from unequal.randomness import Stream, numpy_generator, torch_generator
from unequal.training.batches import image_indices

BuildNet = Callable[..., UNet2DModel]
EVERYTHING = {"attention_resolutions": (8, 4), "scale_shift": True}
MIDDLE = "mid_block.attentions.0"


def by_layer(units: list[Unit]) -> dict[str, list[Unit]]:
    layers: dict[str, list[Unit]] = {}
    for unit in units:
        layers.setdefault(unit.layer, []).append(unit)
    return layers


@pytest.mark.parametrize("changes", [{}, {"middle_attention": False}, EVERYTHING, {"heads": 3}])
def test_units_fit_norms_and_heads(tiny_net: BuildNet, changes: dict[str, Any]) -> None:
    net = tiny_net(**changes)
    modules = dict(net.named_modules())
    layers = by_layer(prunable_units(net, importance_of("random", 0)))
    assert "conv_in" in layers
    assert "conv_out" not in layers
    assert not any("time_emb" in layer for layer in layers)
    assert sum(layer.endswith("to_q") for layer in layers) == sum("to_q" in name for name in modules)
    for layer, units in layers.items():
        root = modules[layer]
        width = root.out_channels if isinstance(root, torch.nn.Conv2d) else root.out_features
        channels = [channel for unit in units for channel in unit.channels]
        assert len(set(channels)) == len(channels)
        assert len(channels) == width - 4, "one unit of four channels must be left"
        for unit in units:
            # One channel of each of the four norm groups, or the four channels of one head.
            wholes = {channel // (width // 4) for channel in unit.channels}
            heads = {channel // 4 for channel in unit.channels}
            assert len(wholes) == 4 or (layer.endswith("to_q") and len(heads) == 1)


@pytest.mark.parametrize("method", ["random", "magnitude"])
def test_units_come_by_rising_importance(tiny_net: BuildNet, method: str) -> None:
    scores = [unit.importance for unit in prunable_units(tiny_net(), importance_of(method, 0))]
    assert scores == sorted(scores)
    assert len(set(scores)) > 10


def test_random_follows_its_seed(tiny_net: BuildNet) -> None:
    net = tiny_net()
    first, again, other = (prunable_units(net, importance_of("random", seed)) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_an_unknown_method() -> None:
    with pytest.raises(UserError, match="pruning method 'best' is unknown; allowed: random, magnitude, taylor"):
        importance_of("best", 0)


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


def test_magnitude_takes_silent_heads_first_and_nobody_hears_it(tiny_net: BuildNet) -> None:
    net = tiny_net()
    silence_head(net, slice(8, 12), only_output=False)
    first = prunable_units(net, importance_of("magnitude", 0))[0]
    assert first == Unit(f"{MIDDLE}.to_q", (8, 9, 10, 11), 0.0)
    torch.testing.assert_close(outputs(remove(net, [first]).net), outputs(net))


def test_magnitude_takes_silent_channels_first(tiny_net: BuildNet) -> None:
    net = tiny_net()
    silent = [1, 2, 5, 6]  # one of each norm group
    resnet = net.get_submodule("down_blocks.0.resnets.0")
    with torch.no_grad():
        for layer in (resnet.conv1, resnet.time_emb_proj, resnet.norm2):
            layer.weight[silent] = 0
            layer.bias[silent] = 0
        resnet.conv2.weight[:, silent] = 0
    first = prunable_units(net, importance_of("magnitude", 0))[0]
    assert first.layer == "down_blocks.0.resnets.0.conv1"
    assert sorted(first.channels) == silent


def test_taylor_sees_that_nothing_depends_on_a_head(
    tiny_net: BuildNet, prepared: PreparedData, make_record: Callable[..., Any]
) -> None:
    net = tiny_net()
    silence_head(net, slice(4, 8), only_output=True)
    accumulate_gradients(net, make_record(net), tensor_of(prepared.train), count=8, seed=0)
    first = prunable_units(net, importance_of("taylor", 0))[0]
    assert (first.layer, first.channels) == (f"{MIDDLE}.to_q", (4, 5, 6, 7))
    assert first.importance == pytest.approx(0, abs=1e-6)


def test_gradients_are_those_of_one_batch(
    tiny_net: BuildNet, prepared: PreparedData, make_record: Callable[..., Any]
) -> None:
    net, by_hand = tiny_net(), tiny_net()
    net.requires_grad_(False)
    images = tensor_of(prepared.train)
    accumulate_gradients(net, make_record(net), images, count=8, seed=3)
    x0 = to_model_range(images[torch.from_numpy(image_indices(3, 0, 8, len(images)))])
    epsilon = torch.randn((8, 1, 8, 8), generator=torch_generator("cpu", 3, Stream.NOISE, 0))
    t = torch.from_numpy(numpy_generator(3, Stream.TIMESTEPS, 0).choice(50, size=8, p=[0.02] * 50))
    ratio = torch.cumprod(1 - torch.linspace(2e-3, 0.4, 50, dtype=torch.float64), 0)[t].float().reshape(-1, 1, 1, 1)
    answer = by_hand(ratio.sqrt() * x0 + (1 - ratio).sqrt() * epsilon, t).sample
    (answer - epsilon).square().mean().backward()
    for (name, one), other in zip(net.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-3, atol=1e-6, msg=name)
