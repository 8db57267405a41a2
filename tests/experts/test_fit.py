"""Every method meets its measured limit, and what it removed can be removed again from the record."""

import copy
import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal
from search_place import DIFF_PRUNING, MAGNITUDE, RANDOM, SEARCH, TAYLOR
from specs import low_resolution
from tensors import equal
from torch.nn import functional as F

from unequal.experts import fit
from unequal.experts.anatomy import Anatomy, Unit
from unequal.experts.fit import fit_to_limit, remove, too_many
from unequal.experts.importance import Target, ranked
from unequal.experts.proxy import decide
from unequal.models.backbones.backbone import count_cost
from unequal.models.pruned import Block, take_away
from unequal.settings.pruning import Proxy

pytestmark = pytest.mark.slow

BuildNet = Callable[..., UNet2DModel]
MakeTarget = Callable[..., Target]
ATTENTIVE = {"attention_resolutions": (8, 4), "scale_shift": True}
OVER_ALL = DIFF_PRUNING.model_copy(update={"timesteps": "all", "images": 1})
PROXY = Proxy.model_validate(SEARCH | {"start": (TAYLOR,), "rounds": 1, "candidates": 1, "images": 4})

#: Kinds of networks, and what their records say: skip connections have all of them.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "attention": (ATTENTIVE, {}),
    "no attention, three levels": ({"middle_attention": False, "block_out_channels": (8, 16, 16)}, {}),
    "learned variance": ({"variance": "learned", **ATTENTIVE}, {"variance": "learned"}),
    "three heads": ({"heads": 3, **ATTENTIVE}, {"prediction": "mixed"}),
    "super-resolution": ({"condition": low_resolution(2)}, {"condition": low_resolution(2)}),
}


def outputs(net: UNet2DModel) -> torch.Tensor:
    channels = net.config["in_channels"]
    with torch.no_grad():
        image = torch.linspace(-1, 1, 128 * channels).reshape(2, channels, 8, 8)
        return net.eval()(image, torch.tensor([1, 40])).sample


RATIOS = [(RANDOM, 0.3), (MAGNITUDE, 0.9), (TAYLOR, 0.6), (OVER_ALL, 0.8), (PROXY, 0.7)]
#: Every method for one kind of network, and a method of gradients for each of the others.
CASES = [
    *(("attention", *one) for one in RATIOS),
    *((kind, TAYLOR, 0.6) for kind in KINDS if kind != "attention"),
    ("super-resolution", OVER_ALL, 0.8),
]


@pytest.mark.parametrize(("kind", "method", "ratio"), CASES, ids=lambda one: getattr(one, "method", None))
def test_a_limit_is_met(kind, method, ratio, tiny_net, make_target, here):
    changes, facts = KINDS[kind]
    # As it comes from a model folder.
    net = tiny_net(**changes).eval().requires_grad_(False)
    target, anatomy = make_target(net, ratio, **facts), Anatomy(net)
    before = copy.deepcopy(net.state_dict())
    if isinstance(method, Proxy):
        pruned = decide(here, method, target, anatomy).pruned
    else:
        pruned = fit_to_limit(anatomy, ranked(method, target, anatomy), target.limit_macs)

    assert pruned.cost == count_cost(pruned.net)
    assert 0.97 * target.limit_macs <= pruned.cost.macs <= target.limit_macs
    assert pruned.net.conv_out.out_channels == net.conv_out.out_channels

    # The unpruned network is left as it is.
    assert not any(parameter.requires_grad for parameter in net.parameters())
    assert equal(net.state_dict(), before)

    # The record, as JSON carries it, makes the same of a fresh network.
    rebuilt = tiny_net(**changes).requires_grad_(False)
    take_away(rebuilt, json.loads(json.dumps(pruned.removals)))
    rebuilt.load_state_dict(pruned.net.state_dict())
    assert torch.equal(outputs(rebuilt), outputs(pruned.net))

    # And it can be trained.
    pruned.net.requires_grad_(True).zero_grad()
    pruned.net(torch.randn(2, net.config["in_channels"], 8, 8), torch.tensor([1, 40])).sample.square().mean().backward()
    assert all(parameter.grad is not None for parameter in pruned.net.parameters())
    assert all(parameter.grad.shape == parameter.shape for parameter in pruned.net.parameters())


def test_what_is_kept_keeps_its_weights(tiny_net):
    net = tiny_net()
    pruned = remove(net, [Unit("down_blocks.0.resnets.0.conv1", (0, 2, 5, 7), 0.0, Block(1, "down_blocks.0"))]).net
    old, new = net.get_submodule("down_blocks.0.resnets.0"), pruned.get_submodule("down_blocks.0.resnets.0")
    kept = [1, 3, 4, 6]
    assert torch.equal(new.conv1.weight, old.conv1.weight[kept])
    assert torch.equal(new.time_emb_proj.weight, old.time_emb_proj.weight[kept])
    assert torch.equal(new.norm2.weight, old.norm2.weight[kept])
    assert torch.equal(new.conv2.weight, old.conv2.weight[:, kept])
    assert new.conv2.out_channels == 8


@pytest.fixture(scope="module")
def attentive(tiny_net):
    return Anatomy(tiny_net(**ATTENTIVE))


def drawn(anatomy: Anatomy, make_target: MakeTarget, seed: int) -> list[Unit]:
    return ranked(RANDOM, make_target(anatomy.net, seed=seed), anatomy)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.floats(0.15, 1.0))
def test_any_order_meets_any_limit_and_leaves_no_room(attentive, make_target, seed, ratio):
    """Pruned units would not fit; each layer keeps its more important units."""
    units = drawn(attentive, make_target, seed)
    limit = ratio * attentive.macs(np.zeros(len(attentive.layers), dtype=np.int64))
    gone = too_many(attentive, units, limit)
    left = fit.removed_channels(attentive, gone)
    assert attentive.macs(left) <= limit
    lost = set(gone)
    for unit in lost:
        assert attentive.macs(left - fit.removed_channels(attentive, [unit])) > limit
    for layer in attentive.index:
        ranks = [unit in lost for unit in units if unit.layer == layer]
        assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("ratio", [1.0, 1.5])
def test_a_limit_that_is_met_already(attentive, make_target, ratio):
    limit = ratio * count_cost(attentive.net).macs
    pruned = fit_to_limit(attentive, drawn(attentive, make_target, 0), limit)
    assert pruned.removals == []
    assert torch.equal(outputs(pruned.net), outputs(attentive.net))


def test_a_limit_out_of_reach(attentive, make_target):
    units = drawn(attentive, make_target, 0)
    least = remove(attentive.net, units).cost.macs
    said = refusal(fit_to_limit, attentive, units, 1000)
    assert said.startswith("pruning: a limit of 1000 multiply–accumulates is out of reach;")
    assert said.endswith(f"in every layer there are {least}")
    assert fit_to_limit(attentive, units, least).cost.macs == least


def test_a_network_with_a_cost_of_its_own_is_refused(tiny_net, make_target):
    net = tiny_net()
    anatomy = Anatomy(net)
    units = [unit for unit in drawn(anatomy, make_target, 0) if unit.layer.startswith("mid_block")]
    # A convolution that is no module.
    net.conv_norm_out.register_forward_hook(lambda _, __, x: F.conv2d(x, torch.eye(8)[:, :, None, None]))
    assert "it holds blocks that cannot be pruned here" in refusal(fit_to_limit, anatomy, units, 10**9)


class Sum:
    """An anatomy whose units each save what their importance says."""

    def __init__(self, savings: Sequence[int]) -> None:
        self.total = 2 * sum(savings)
        self.units = [Unit(str(i), tuple(range(saving)), saving, Block(0, str(i))) for i, saving in enumerate(savings)]
        self.index = {unit.layer: i for i, unit in enumerate(self.units)}
        self.layers = [SimpleNamespace(name=unit.layer) for unit in self.units]

    def macs(self, removed: np.ndarray) -> int:
        return self.total - int(removed.sum())


def test_small_units_come_back_where_a_large_one_does_not_fit():
    model: Any = Sum([10, 5, 50, 20, 30])
    # Without 10, 5 and 50 there are 165 of 230; with a limit of 180, 50 does not fit, but 5 and 10 do.
    assert [unit.layer for unit in too_many(model, model.units, 180)] == ["2"]
    assert [unit.layer for unit in too_many(model, model.units, 170)] == ["2", "0"]
