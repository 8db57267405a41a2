"""Pruning as programs: a model folder within its limit, its figures, and refusals in one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from stage_project import write_params

from stages import prune, prune_base
from unequal.data.prepared import PreparedData
from unequal.files import write_json
from unequal.models.artifact import ModelRecord, load_model, load_pruning, save_model
from unequal.models.flops import count_cost

METHODS: dict[str, dict[str, Any]] = {
    "expert": {"method": "taylor", "timesteps": "group", "images": 4},
    "drawn": {"method": "random"},
    "small": {"method": "magnitude"},
    "diffused": {"method": "diff_pruning", "timesteps": "all", "images": 1, "threshold": 0.05},
}
GROUPS = [
    {"group": 0, "first": 0, "last": 29, "limit_ratio": 0.7},
    {"group": 1, "first": 30, "last": 49, "limit_ratio": 1.0},
]


@pytest.fixture(autouse=True)
def base(
    project: Path, prepared: PreparedData, tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> ModelRecord:
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net(heads=2)
    record = make_record(net, name="base")
    save_model(Path("artifacts/models/base"), net, record)
    table = {"timesteps": 50, "schedule": "linear", "kind": "snr", "min_ratio": 0.5, "groups": GROUPS}
    write_json(Path("artifacts/groups.json"), table)
    write_params(seed=0, pruning=METHODS, base_pruning={"ratio": 0.6, "methods": list(METHODS)})
    return record


def run(*options: str) -> Result:
    return CliRunner().invoke(prune.main, [*options])


@pytest.mark.parametrize("name", METHODS)
def test_a_group_gets_a_model_within_its_limit(name: str, base: ModelRecord) -> None:
    assert run("--method", name, "--group", "0").exit_code == 0
    net, record = load_model(Path(f"artifacts/pruned/{name}/group_0"))
    assert count_cost(net).macs == record.macs
    assert 0.97 * 0.7 * base.macs <= record.macs <= 0.7 * base.macs
    assert net.conv_out.out_channels == 2
    assert (record.first, record.last, record.group, record.groups) == (0, 29, 0, 2)
    assert (record.parent, record.total_images, record.images_seen) == ("base", base.images_seen, 0)
    figures = json.loads(Path(f"results/metrics/prune_{name}_group_0.json").read_text())
    assert figures["method"] == METHODS[name]["method"]
    assert figures["macs"] == record.macs
    assert figures["share_of_base"] == pytest.approx(record.macs / base.macs)
    assert figures["share_of_limit"] == pytest.approx(record.macs / (0.7 * base.macs))


def test_the_last_group_keeps_the_whole_model(base: ModelRecord) -> None:
    assert run("--method", "expert", "--group", "1").exit_code == 0
    assert load_pruning(Path("artifacts/pruned/expert/group_1")) == []
    assert load_model(Path("artifacts/pruned/expert/group_1"))[1].macs == base.macs


def test_the_base_is_pruned_for_all_timesteps(base: ModelRecord) -> None:
    assert CliRunner().invoke(prune_base.main, ["--method", "small"]).exit_code == 0
    record = load_model(Path("artifacts/pruned/small/base"))[1]
    assert 0.97 * 0.6 * base.macs <= record.macs <= 0.6 * base.macs
    assert (record.first, record.last, record.group, record.groups) == (0, 49, None, None)
    assert Path("results/metrics/prune_small_base.json").exists()


def test_a_limit_out_of_reach_is_one_line() -> None:
    write_params(seed=0, pruning=METHODS, base_pruning={"ratio": 0.01, "methods": ["drawn"]})
    result = CliRunner().invoke(prune_base.main, ["--method", "drawn"])
    assert result.exit_code == 1
    assert result.output.startswith("prune_base: pruning: a limit of ")
    assert result.output.count("\n") == 1
    assert not Path("artifacts/pruned").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--method", "expert", "--group", "2"), "prune: group 2: there are groups 0 … 1\n"),
        (("--method", "best", "--group", "0"), "prune: params.yaml: pruning.best: missing; there is: diffused, drawn"),
    ],
)
def test_what_is_not_there_is_named_in_one_line(options: tuple[str, ...], line: str) -> None:
    result = run(*options)
    assert result.exit_code == 1
    assert result.output.startswith(line)
    assert result.output.count("\n") == 1
