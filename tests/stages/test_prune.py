"""Pruning as programs: a model folder within its limit, its figures, and refusals in one line."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_inputs import PROXY
from stage_project import write_params

from stages import prune
from unequal.experts.bank import BANK
from unequal.models.backbones.backbone import count_cost
from unequal.models.folder import save_model
from unequal.models.pruned import load_any_model
from unequal.runtime.files import write_json

METHODS: dict[str, dict[str, Any]] = {
    "expert": {"method": "taylor", "timesteps": "group", "images": 4},
    "drawn": {"method": "random"},
    "small": {"method": "magnitude"},
    "diffused": {"method": "diff_pruning", "timesteps": "all", "images": 1, "threshold": 0.05},
    "decided": PROXY
    | {"start": [{"method": "taylor", "timesteps": "group", "images": 4}]}
    | {"finetuning": {"images": 8, "batch_size": 4, "lr": 1.0e-3}},
}
GROUPS = [
    {"group": 0, "first": 0, "last": 29, "limit_ratio": 0.7},
    {"group": 1, "first": 30, "last": 49, "limit_ratio": 1.0},
]


@pytest.fixture(autouse=True)
def base(project, prepared, tiny_net, make_record):
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net(variance="learned")
    record = make_record(net, name="base", variance="learned")
    save_model(Path("artifacts/models/base"), net, record)
    table = {"timesteps": 50, "schedule": "linear", "kind": "snr", "min_ratio": 0.5, "groups": GROUPS}
    write_json(Path("artifacts/groups.json"), table)
    write_params(seed=0, pruning=METHODS)
    return record


def run(*options: str) -> Result:
    return CliRunner().invoke(prune.main, [*options])


@pytest.mark.parametrize("name", METHODS)
def test_a_group_gets_a_model_within_its_limit(name, base):
    assert run("--method", name, "--group", "0").exit_code == 0
    net, record = load_any_model(Path(f"artifacts/pruned/{name}/group_0"))
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


def test_there_is_nothing_to_decide_where_all_may_stay(base):
    assert run("--method", "decided", "--group", "1").exit_code == 0
    folder = Path("artifacts/pruned/decided/group_1")
    assert load_any_model(folder)[1].macs == base.macs
    assert not (folder / BANK).exists()


def test_a_decision_leaves_its_memory_bank():
    assert run("--method", "decided", "--group", "0").exit_code == 0
    folder = Path("artifacts/pruned/decided/group_0")
    lines = [json.loads(line) for line in (folder / BANK).read_text().splitlines()]
    assert [line["proposer"] for line in lines] == ["taylor", "tpe", "tpe"]
    assert BANK in load_any_model(folder)[1].sha256
    figures = json.loads(Path("results/metrics/prune_decided_group_0.json").read_text())
    assert figures["loss"] == min(line["loss"] for line in lines)
    assert figures["search_flops"] == sum((4 + 3 * 8) * line["macs"] for line in lines)
    assert list(Path("work").iterdir()) == []


@pytest.mark.thorough
def test_recorded_banks_of_all_groups_are_replayed_from_a_folder():
    assert run("--method", "decided", "--group", "0").exit_code == 0
    model, figures = Path("artifacts/pruned/decided/group_0"), Path("results/metrics/prune_decided_group_0.json")
    before = json.loads(figures.read_text())
    shutil.copytree(model.parent, "banks")
    replayed = METHODS["decided"] | {"replay": "banks", "start": [], "rounds": 5}
    shutil.rmtree("artifacts/sources")
    write_params(seed=0, pruning=METHODS | {"decided": replayed})
    assert run("--method", "decided", "--group", "0").exit_code == 0
    assert (model / BANK).read_bytes() == Path("banks/group_0", BANK).read_bytes()
    assert json.loads(figures.read_text()) == before
    shutil.rmtree("banks/group_0")
    Path("banks/empty").touch()
    shutil.rmtree("artifacts/sources")
    result = run("--method", "decided", "--group", "0")
    assert result.output.endswith(
        "banks/group_0/memory_bank.jsonl: no memory bank that can be read (No such file or directory)\n"
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--method", "expert", "--group", "2"), "prune: group 2: there are groups 0 … 1\n"),
        (("--method", "best", "--group", "0"), "prune: params.yaml: pruning.best: missing; there is: decided,"),
    ],
)
def test_what_is_not_there_is_named_in_one_line(options, line):
    result = run(*options)
    assert result.exit_code == 1
    assert result.output.startswith(line)
    assert result.output.count("\n") == 1
