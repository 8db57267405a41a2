"""Limits that no pruning can reach are refused before anything is trained, and only those."""

from pathlib import Path
from typing import Any

import torch
from one_line import refusal
from params_files import edited

from unequal.cli.architecture import spec_of
from unequal.experts.anatomy import Anatomy, units_by
from unequal.experts.fit import fit_to_limit
from unequal.experts.reach import check_reach, least_share
from unequal.models.backbones import backbone
from unequal.models.backbones.backbone import build_outline, count_cost
from unequal.settings.params import Params

DEFAULT = Path(__file__).parents[2] / "presets/digits.yaml"
TINY = {"block_out_channels": [8, 16], "attention_head_dim": 4, "norm_num_groups": 4}
MANY = {"groups.ids": list(range(100)), "groups.kind": "uniform_increasing", "groups.min_ratio": 0.002}


def tiny(folder: Path, **edits: Any) -> Params:
    return Params.read(edited(DEFAULT, {f"network.{key}": value for key, value in TINY.items()} | edits, folder))


def test_the_least_share_is_what_pruning_leaves_at_most(tmp_path, tiny_net):
    net = tiny_net()
    share, whole = least_share(tiny(tmp_path)), count_cost(net).macs
    anatomy = Anatomy(net)
    order = units_by(lambda group: torch.rand(len(group[0].idxs)), anatomy)
    assert fit_to_limit(anatomy, order, share * whole + 0.5).cost.macs == round(share * whole)
    assert "out of reach" in refusal(fit_to_limit, anatomy, order, share * whole - 0.5)


def test_a_large_network_is_judged_by_shapes_alone(tmp_path, monkeypatch):
    params = tiny(tmp_path)
    share, spec = least_share(params), spec_of(params)
    assert next(build_outline(params.network, spec).parameters()).device.type == "cpu"
    monkeypatch.setattr(backbone, "SMALL", 0)
    assert next(build_outline(params.network, spec).parameters()).device.type == "meta"
    assert least_share(params) == share


def test_a_limit_that_no_pruning_reaches_is_refused_in_one_line(tmp_path):
    """The smallest of N models may take 1/N of the base and (N − 1)/N·k more."""
    check_reach(tiny(tmp_path, **MANY | {"groups.min_ratio": 0.5}))
    check_reach(tiny(tmp_path, **MANY | {"groups.ids": [0, 1]}))
    said = "groups.min_ratio: a limit of 0.01198 of the base's FLOPs is out of"
    assert refusal(check_reach, tiny(tmp_path, **MANY)).startswith(said)
