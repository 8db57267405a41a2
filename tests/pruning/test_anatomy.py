"""What can be pruned, and its cost by formula: that which is measured, and the one known of a published network."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from hypothesis import given, settings
from hypothesis import strategies as st

from unequal.models.backbones.unet2d.backbone import build_unet
from unequal.models.cost import count_cost
from unequal.pruning.anatomy import Anatomy, Unit, units_by
from unequal.pruning.fit import remove, removed_channels
from unequal.settings.params.pipeline import Params

BuildNet = Callable[..., UNet2DModel]
ATTENTIVE: dict[str, Any] = {"attention_resolutions": (8, 4), "scale_shift": True}
PRESETS = Path(__file__).parents[2] / "presets"


def all_units(anatomy: Anatomy) -> list[Unit]:
    return units_by(lambda group: torch.arange(len(group[0].idxs), dtype=torch.float32), anatomy)


def test_output_and_time_embedding_are_left_alone(tiny_net: BuildNet) -> None:
    names = set(Anatomy(tiny_net(**ATTENTIVE)).index)
    assert "conv_in" in names
    assert "conv_out" not in names
    assert not any("time_emb" in name for name in names)


@pytest.mark.parametrize("changes", [{}, ATTENTIVE, {"heads": 2, "block_out_channels": (8, 16, 16)}])
def test_the_unpruned_cost_is_the_measured_one(tiny_net: BuildNet, changes: dict[str, Any]) -> None:
    net = tiny_net(**changes)
    anatomy, none = Anatomy(net), np.zeros(len(Anatomy(net).layers), dtype=np.int64)
    assert anatomy.macs(none) == count_cost(net).macs
    weights = sum(p.numel() for p in net.parameters() if p.ndim > 1)
    assert anatomy.weights(none) == weights


def test_a_signal_to_stop_ends_a_trace(tiny_net: BuildNet, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> None:
        raise SystemExit(143)

    net = tiny_net()
    monkeypatch.setattr(net.mid_block, "forward", stopped)
    with pytest.raises(SystemExit, match="143"):
        Anatomy(net)


@pytest.fixture(scope="module")
def anatomy(tiny_net: BuildNet) -> Anatomy:
    return Anatomy(tiny_net(heads=2, **ATTENTIVE))


@settings(max_examples=4)
@given(st.data())
def test_the_cost_without_some_units_is_the_measured_one(anatomy: Anatomy, data: st.DataObject) -> None:
    units = all_units(anatomy)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(units), max_size=len(units)))
    gone = [unit for unit, goes in zip(units, chosen, strict=True) if goes]
    pruned, removed = remove(anatomy.net, gone), removed_channels(anatomy, gone)
    assert anatomy.macs(removed) == pruned.cost.macs
    assert anatomy.weights(removed) == sum(p.numel() for p in pruned.net.parameters() if p.ndim > 1)


@pytest.mark.slow
def test_uniform_ratios_are_the_known_staircase() -> None:
    """DDPM's network for CIFAR-10 (6.05 G): 0.25 of all channels gives 3.41 G; 0.30, cut to norm groups, 2.09 G."""
    network = Params.read(PRESETS / "cifar10-ddpm.yaml").network
    with torch.device("meta"):
        anatomy = Anatomy(build_unet(network, 32, 3, 3))
    for ratio, macs in ((0.0, 6.054), (0.25, 3.41), (0.30, 2.09)):
        steps = [1 if layer.heads else layer.parts for layer in anatomy.layers]
        kept = [
            int((1 - ratio) * layer.channels) // step * step for layer, step in zip(anatomy.layers, steps, strict=True)
        ]
        removed = np.array([layer.channels for layer in anatomy.layers]) - np.array(kept)
        assert anatomy.macs(removed) / 1e9 == pytest.approx(macs, rel=0.011)
