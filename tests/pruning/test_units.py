"""Which channels are removed together, and in which order."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.pruning.anatomy import Anatomy, Unit, across, units_by

BuildNet = Callable[..., UNet2DModel]
EVERYTHING = {"attention_resolutions": (8, 4), "scale_shift": True}


def drawn(group: Any) -> torch.Tensor:
    return torch.rand(len(group[0].idxs), generator=torch.Generator().manual_seed(len(group)))


def by_layer(units: list[Unit]) -> dict[str, list[Unit]]:
    layers: dict[str, list[Unit]] = {}
    for unit in units:
        layers.setdefault(unit.layer, []).append(unit)
    return layers


@pytest.mark.parametrize("changes", [{}, {"middle_attention": False}, EVERYTHING, {"heads": 2}, {"heads": 3}])
def test_units_fit_norms_and_heads(tiny_net: BuildNet, changes: dict[str, Any]) -> None:
    net = tiny_net(**changes)
    modules = dict(net.named_modules())
    layers = by_layer(units_by(drawn, Anatomy(net)))
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


def test_units_come_by_rising_importance(tiny_net: BuildNet) -> None:
    scores = [unit.importance for unit in units_by(drawn, Anatomy(tiny_net()))]
    assert scores == sorted(scores)
    assert len(set(scores)) > 10


def test_a_unit_takes_the_least_important_channel_that_is_left_of_each_norm_group() -> None:
    scores = torch.tensor([0.3, 0.1, 0.2, 5.0, 7.0, 6.0])
    assert across(scores, 2).tolist() == [[1, 3], [2, 5], [0, 4]]
