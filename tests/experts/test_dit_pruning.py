"""A transformer loses hidden channels, heads and whole blocks, by every method and to just the limit."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal
from search_place import METHODS, SEARCH, all_units
from specs import class_labels, dropped_labels

from unequal.experts.anatomy import Anatomy
from unequal.experts.fit import fit_to_limit, remove, removed_channels
from unequal.experts.importance import Target, ranked
from unequal.experts.proxy import decide
from unequal.models.backbones.backbone import count_cost
from unequal.models.backbones.dit.network import Absent, DiffusionTransformer
from unequal.models.folder import save_model
from unequal.models.pruned import load_any_model, take_away
from unequal.settings.pruning import Proxy

BuildDiT = Callable[..., DiffusionTransformer]
MakeTarget = Callable[..., Target]


@pytest.fixture(scope="module")
def anatomy(tiny_dit):
    return Anatomy(tiny_dit(depth=3, heads=4))


def test_what_can_be_pruned(anatomy):
    own = {f"blocks.{i}.{part}" for i in range(3) for part in ("attn.qkv", "mlp.fc1")}
    assert set(anatomy.index) == own | {"blocks.1", "blocks.2"}
    none = np.zeros(len(anatomy.layers), dtype=np.int64)
    assert anatomy.macs(none) == count_cost(anatomy.net).macs
    # One head of four and 16 of 64 hidden channels stay at least; all blocks but the first may go.
    assert sum(len(unit.channels) for unit in all_units(anatomy) if unit.layer == "blocks.0.attn.qkv") == 12
    assert sum(len(unit.channels) for unit in all_units(anatomy) if unit.layer == "blocks.0.mlp.fc1") == 48
    assert [unit.layer for unit in all_units(anatomy) if unit.block.name == "depth"] == ["blocks.1", "blocks.2"]


@settings(max_examples=4)
@given(st.data())
def test_the_cost_without_some_units_is_the_measured_one(anatomy, data):
    units = all_units(anatomy)
    chosen = data.draw(st.lists(st.booleans(), min_size=len(units), max_size=len(units)))
    gone = [unit for unit, goes in zip(units, chosen, strict=True) if goes]
    pruned = remove(anatomy.net, gone)
    removed = removed_channels(anatomy, gone)
    assert anatomy.macs(removed) == pruned.cost.macs
    assert anatomy.weights(removed) == sum(p.numel() for p in pruned.net.parameters() if p.ndim > 1)
    net, tokens = pruned.net, 16
    left = [block.attn.proj.in_features for block in net.present]
    # Each head takes two products of all tokens with all.
    assert pruned.cost.macs_with_attention - pruned.cost.macs == 2 * tokens**2 * sum(left)


def test_what_is_left_answers_as_if_the_rest_were_zero(tiny_dit):
    """Without the weights that read a channel or a head, and without the gates of a block, they do not count."""
    net, silent = tiny_dit(depth=3), tiny_dit(depth=3)
    removals = [("blocks.0.attn.qkv", range(8, 16)), ("blocks.0.mlp.fc1", range(0, 64, 2)), ("blocks.1", [0])]
    with torch.no_grad():
        silent.blocks[0].attn.proj.weight[:, 8:] = 0
        silent.blocks[0].mlp.fc2.weight[:, ::2] = 0
        for parameter in silent.blocks[1].adaLN_modulation.parameters():
            parameter.zero_()
    take_away(net, [(name, list(channels)) for name, channels in removals])
    assert isinstance(net.blocks[1], Absent)
    assert len(net.present) == 2
    x, t = torch.randn(2, 1, 8, 8), torch.tensor([3, 40])
    assert torch.allclose(net(x, t).sample, silent(x, t).sample, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "ratio"),
    [(METHODS[1], 0.9), *((method, 0.2) for method in METHODS)],
    ids=lambda one: getattr(one, "method", None),
)
def test_every_method_meets_its_limit(tiny_dit, make_target, make_record, tmp_path, method, ratio):
    target = make_target(tiny_dit(depth=4).eval(), ratio)
    anatomy = Anatomy(target.net)
    pruned = fit_to_limit(anatomy, ranked(method, target, anatomy), target.limit_macs)
    assert pruned.cost.macs <= target.limit_macs
    # A whole block and its cheapest unit bound what is left over.
    assert pruned.cost.macs > target.limit_macs - count_cost(target.net).macs / 4
    save_model(tmp_path, pruned.net, make_record(pruned.net), pruned.removals)
    again, _ = load_any_model(tmp_path)
    x, t = torch.randn(2, 1, 8, 8), torch.tensor([3, 40])
    assert torch.equal(again(x, t).sample, pruned.net(x, t).sample)


@pytest.mark.parametrize(
    ("method", "condition"),
    [(METHODS[2], class_labels(2)), (METHODS[2], dropped_labels(2)), (METHODS[3], dropped_labels(2))],
    ids=["taylor, labels", "taylor, dropped labels", "diff_pruning"],
)
def test_a_transformer_with_labels_is_pruned_on_a_flow_as_well(tiny_dit, make_target, prepared, method, condition):
    facts = {"prediction": "velocity", "schedule": "flow", "condition": condition}
    target = make_target(tiny_dit(depth=3, condition=condition).eval(), 0.5, **facts)
    anatomy = Anatomy(target.net)
    order = ranked(method, replace(target, labels=prepared.labels_of("train")), anatomy)
    pruned = fit_to_limit(anatomy, order, target.limit_macs)
    assert 0.25 * count_cost(target.net).macs < pruned.cost.macs <= target.limit_macs
    x, t, y = torch.randn(2, 1, 8, 8), torch.tensor([3, 40]), torch.tensor([0, 1])
    assert not torch.allclose(pruned.net(x, t, y).sample, pruned.net(x, t, 1 - y).sample, atol=1e-4)


def test_a_search_proposes_a_ratio_for_depth_as_well(tiny_dit, make_target, here):
    target = make_target(tiny_dit(depth=3).eval(), 0.6)
    method = Proxy.model_validate(SEARCH | {"start": (METHODS[1],)})
    decision = decide(here, method, target, Anatomy(target.net))
    assert decision.pruned.cost.macs <= target.limit_macs
    assert set(decision.bank.best.scheme) == {"blocks.0", "blocks.1", "blocks.2", "depth"}


@pytest.mark.parametrize(
    ("removal", "said"),
    [
        (("blocks.7", [0]), "'blocks.7' is no layer of this network"),
        (("blocks.0", [0]), "'blocks.0' is no layer of this network"),
        (("x_embedder.proj", [0]), "'x_embedder.proj' is no layer of this network"),
        (("blocks.0.mlp.fc1", [64]), "'blocks.0.mlp.fc1' has no channel 64"),
        (("blocks.0.mlp.fc1", list(range(64))), "removing 64 channels empties 'blocks.0.mlp.fc1'"),
        (("blocks.0.attn.qkv", [0, 1]), "'blocks.0.attn.qkv' would lose part of a head of 8 channels"),
    ],
)
def test_a_record_of_another_network(tiny_dit, removal, said):
    assert said in refusal(take_away, tiny_dit(), [removal])
