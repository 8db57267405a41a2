"""Folders of own runs: their files, and the package's graph cut to the models that are asked for."""

from pathlib import Path
from typing import Any

import pytest
from graph import ROOT
from harness.projects import run

from unequal.pipeline.folders import MADE, cut, make_folder, update_graph
from unequal.settings.strict import read_yaml

GRAPH: dict[str, Any] = read_yaml(ROOT / "dvc.yaml")
DIGITS: dict[str, Any] = read_yaml(ROOT / "presets/digits.yaml")
OPTIONAL = {name for name, stage in GRAPH["stages"].items() if (stage.get("meta") or {}).get("optional")}


def asked(*models: str) -> dict[str, Any]:
    return DIGITS | {"scored_models": ["base", *models], "profiled_models": ["base"]}


@pytest.mark.parametrize(
    ("model", "stages"),
    [
        (None, set()),
        ("mixed", {"train_mixed"}),
        ("slot_7", {"compute_slots", "finetune_slots"}),
        ("stratified", {"compute_slots", "build_sampler", "train_recipe"}),
        ("experts_unpruned", {"group_timesteps", "finetune_unpruned"}),
        ("experts_pruned", {"group_timesteps", "prune", "finetune_groups"}),
    ],
)
def test_a_graph_holds_the_stages_that_a_model_needs(model: str | None, stages: set[str]) -> None:
    graph = cut(GRAPH, asked(*([model] if model else [])))["stages"]
    assert graph.keys() - GRAPH["stages"].keys() == set()
    assert graph.keys() & OPTIONAL == stages
    assert GRAPH["stages"].keys() - OPTIONAL <= graph.keys()


def test_instances_that_nobody_needs_and_dependencies_on_them_are_left_out() -> None:
    graph = cut(GRAPH, asked("stratified", "slot_7"))["stages"]
    assert graph["train_recipe"]["matrix"] == {"recipe": ["stratified"]}
    assert graph["finetune_slots"]["matrix"] == {"slot": [7]}
    gone = set(GRAPH["stages"]["report"]["deps"]) - set(graph["report"]["deps"])
    assert gone == {"artifacts/groups.json", "artifacts/statistics/mixed.npz"}
    assert graph["evaluate_fid"] == GRAPH["stages"]["evaluate_fid"]


def test_the_default_asks_for_the_whole_graph() -> None:
    assert cut(GRAPH, DIGITS) == GRAPH


@pytest.fixture
def folder(project: Path) -> Path:
    make_folder(project / "mine", (ROOT / "presets/digits.yaml").read_text(encoding="utf-8"))
    return project / "mine"


def test_a_graph_follows_params_until_its_user_takes_it_over(folder: Path) -> None:
    params, graph = folder / "params.yaml", folder / "dvc.yaml"
    assert not update_graph(folder)
    assert "train_mixed" in read_yaml(graph)["stages"]
    settings = params.read_text(encoding="utf-8").replace(" mixed,", "")
    params.write_text(settings, encoding="utf-8")
    assert update_graph(folder)
    assert "train_mixed" not in read_yaml(graph)["stages"]
    assert not update_graph(folder)
    graph.write_text(own := graph.read_text(encoding="utf-8").removeprefix(f"{MADE}\n"), encoding="utf-8")
    params.write_text((ROOT / "presets/digits.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    assert not update_graph(folder)
    assert graph.read_text(encoding="utf-8") == own


def test_a_made_graph_is_one_for_dvc_in_a_git_repository_too(folder: Path, project: Path) -> None:
    whole = run(folder, "dvc", "stage", "list", "--name-only").split()
    assert "train_mixed" in whole and "report" in whole
    assert "no_scm" in (folder / ".dvc/config").read_text()
    run(project, "git", "init", "-q")
    make_folder(project / "ours", (folder / "params.yaml").read_text(encoding="utf-8"), own_graph=True)
    assert "no_scm" not in (project / "ours/.dvc/config").read_text()
    assert not (project / "ours/dvc.yaml").read_text().startswith(MADE)
    assert run(project / "ours", "dvc", "stage", "list", "--name-only").split() == whole
