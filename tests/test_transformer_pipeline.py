"""The whole pipeline with a transformer: every stage runs, pruned experts meet their limits, a page is written."""

import json
from pathlib import Path

import pytest
import yaml
from harness.projects import run, tiny_copy

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

TRANSFORMER = {"kind": "dit", "pretrained": None, "depth": 3, "width": 32, "heads": 4, "patch": 2}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, warm_start: None) -> Path:
    target = tmp_path_factory.mktemp("transformer") / "project"
    project = tiny_copy(target, {})
    params = yaml.safe_load((project / "params.yaml").read_text())
    params["network"] = TRANSFORMER
    (project / "params.yaml").write_text(yaml.safe_dump(params, sort_keys=False))
    run(project, "git", "init", "--quiet")
    run(project, "snakemake", "--cores", "2")
    return project


def facts(path: Path) -> dict:
    return json.loads(path.read_text())


def test_every_model_is_a_transformer(project: Path) -> None:
    records = sorted((project / "artifacts/models").rglob("model.json"))
    assert len(records) >= 6
    assert {facts(record)["backbone"] for record in records} == {"dit"}


def test_pruned_experts_meet_their_limits(project: Path) -> None:
    base = facts(project / "artifacts/models/base/model.json")
    shares = [
        facts(record)["macs"] / base["macs"]
        for record in sorted((project / "artifacts/models/experts_pruned").glob("group_*/model.json"))
    ]
    assert len(shares) == 2
    assert all(share <= 1 for share in shares)
    assert shares[0] < 0.8


def test_the_page_shows_all_variants(project: Path) -> None:
    page = (project / "results/report.html").read_text(encoding="utf-8")
    assert all(variant in page for variant in ("experts pruned", "experts unpruned", "stratified"))
