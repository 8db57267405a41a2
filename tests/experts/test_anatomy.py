"""Units that can be pruned, and their cost by formula, as measured and as published."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from hypothesis import given, settings
from hypothesis import strategies as st
from search_place import all_units

from unequal.experts.anatomy import Anatomy, Unit, across, blocks_of, scale_at, scaled_order, scheme_of, units_by
from unequal.experts.fit import remove, removed_channels
from unequal.models.backbones.backbone import count_cost
from unequal.models.backbones.unet2d.backbone import build_unet
from unequal.models.backbones.unet2d.pruning import block_of
from unequal.settings.params import Params

BuildNet = Callable[..., UNet2DModel]
ATTENTIVE: dict[str, Any] = {"attention_resolutions": (8, 4), "scale_shift": True}
PRESETS = Path(__file__).parents[2] / "presets"


@pytest.mark.parametrize("changes", [{}, ATTENTIVE, {"heads": 2, "block_out_channels": (8, 16, 16)}])
def test_the_unpruned_cost_is_the_measured_one(tiny_net, changes):
    net = tiny_net(**changes)
    anatomy = Anatomy(net)
    none = np.zeros(len(anatomy.layers), dtype=np.int64)
    assert anatomy.macs(none) == count_cost(net).macs
    weights = sum(p.numel() for p in net.parameters() if p.ndim > 1)
    assert anatomy.weights(none) == weights


def test_a_signal_to_stop_ends_a_trace(tiny_net, monkeypatch):
    def stopped(*_: Any) -> None:
        raise SystemExit(143)

    net = tiny_net()
    monkeypatch.setattr(net.mid_block, "forward", stopped)
    with pytest.raises(SystemExit, match="143"):
        Anatomy(net)


@pytest.fixture(scope="module")
def anatomy(tiny_net):
    return Anatomy(tiny_net(heads=2, **ATTENTIVE))


@settings(max_examples=4)
@given(st.data())
def test_the_cost_without_some_units_is_the_measured_one(anatomy, data):
    units = all_units(anatomy)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(units), max_size=len(units)))
    gone = [unit for unit, goes in zip(units, chosen, strict=True) if goes]
    pruned, removed = remove(anatomy.net, gone), removed_channels(anatomy, gone)
    assert anatomy.macs(removed) == pruned.cost.macs
    assert anatomy.weights(removed) == sum(p.numel() for p in pruned.net.parameters() if p.ndim > 1)


@pytest.mark.slow
def test_uniform_ratios_are_the_known_staircase():
    """DDPM's network for CIFAR-10 (6.05 G): 0.25 of all channels gives 3.41 G; 0.30, cut to norm groups, 2.09 G."""
    network = Params.read(PRESETS / "cifar10-ddpm.yaml").network
    with torch.device("meta"):
        anatomy = Anatomy(build_unet(network, 32, 3, 3))
    for ratio, macs in ((0.0, 6.054), (0.25, 3.41), (0.30, 2.09)):
        steps = np.array([1 if layer.heads else layer.parts for layer in anatomy.layers])
        channels = np.array([layer.channels for layer in anatomy.layers])
        removed = channels - ((1 - ratio) * channels).astype(np.int64) // steps * steps
        assert anatomy.macs(removed) / 1e9 == pytest.approx(macs, rel=0.011)


@pytest.mark.parametrize("changes", [{}, {"middle_attention": False}, ATTENTIVE, {"heads": 2}, {"heads": 3}])
def test_units_fit_norms_and_heads(tiny_net, changes):
    def drawn(group: Any) -> torch.Tensor:
        return torch.rand(len(group[0].idxs), generator=torch.Generator().manual_seed(len(group)))

    net = tiny_net(**changes)
    modules = dict(net.named_modules())
    layers: dict[str, list[Unit]] = {}
    for unit in units_by(drawn, Anatomy(net)):
        layers.setdefault(unit.layer, []).append(unit)
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


def test_a_unit_takes_the_least_important_channel_that_is_left_of_each_norm_group():
    scores = torch.tensor([0.3, 0.1, 0.2, 5.0, 7.0, 6.0])
    assert across(scores, 2).tolist() == [[1, 3], [2, 5], [0, 4]]


LAYERS = ("up_blocks.0.resnets.0.conv1", "conv_in", "mid_block.resnets.0.conv1")
RANKING = [Unit(layer, (i,), rank, block_of(layer)) for rank, (i, layer) in enumerate(product(range(4), LAYERS))]
BLOCKS = ["conv_in", "mid_block", "up_blocks.0"]


def test_blocks_stand_in_the_order_of_the_network_and_their_units_in_that_of_the_ranking():
    blocks = blocks_of(RANKING)
    assert list(blocks) == BLOCKS
    for units in blocks.values():
        assert [unit.importance for unit in units] == sorted(unit.importance for unit in units)


def test_scaled_ratios_by_hand():
    # At s = −½, 0.8 has become 0.4; at s = ½, 0.8 + ½·0.2 = 0.9; what is not to go at all goes from s = 0 on.
    assert scale_at(0.8, 0.4) == pytest.approx(-0.5)
    assert scale_at(0.8, 0.9) == pytest.approx(0.5)
    assert scale_at(0.0, 0.25) == 0.25
    assert scale_at(1.0, 0.25) == -0.75


@given(st.fixed_dictionaries(dict.fromkeys(BLOCKS, st.floats(0, 1))))
def test_within_a_block_the_ranking_rules(scheme):
    order = scaled_order(RANKING, scheme)
    assert sorted(order, key=RANKING.index) == RANKING
    for units in blocks_of(order).values():
        assert [unit.importance for unit in units] == sorted(unit.importance for unit in units)


@given(st.sets(st.integers(0, 11)))
def test_a_scheme_that_is_met_is_given_back(chosen):
    counts = {block: sum(RANKING[i].block.name == block for i in chosen) for block in BLOCKS}
    scheme = {block: count / 4 for block, count in counts.items()}
    gone = scaled_order(RANKING, scheme)[: len(chosen)]
    assert scheme_of(gone, RANKING) == scheme


@given(st.floats(0, 1))
def test_proportions_are_kept_below_a_scheme(factor):
    whole = {"conv_in": 0.9, "mid_block": 0.7, "up_blocks.0": 0.4}
    part = scaled_order(RANKING, {block: factor * ratio for block, ratio in whole.items()})
    taken = sum((i + 0.5) / 4 < factor * ratio for ratio in whole.values() for i in range(4))
    assert part[:taken] == scaled_order(RANKING, whole)[:taken]
