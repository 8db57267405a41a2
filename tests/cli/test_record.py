"""What Snakemake has made, recorded in DVC: as `dvc commit` would, or not at all."""

import subprocess
from pathlib import Path

import pytest
import yaml
from commands import done, refused
from harness.projects import edit, small_copy
from harness.projects import run as run_in

from unequal.settings.strict import read_yaml

pytestmark = pytest.mark.slow

GRAPH = """
stages:
  draw:
    matrix: {seed: "${seeds}"}
    cmd: mkdir -p made && echo ${item.seed} > made/${item.seed}.txt
    params: [colour]
    outs: ["made/${item.seed}.txt"]
  join:
    cmd: cat made/*.txt > all.txt
    deps: [made, code.py]
    outs: [all.txt]
    metrics:
      - figures.json: {cache: false}
"""


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose outputs lie there, made by something else than DVC."""
    monkeypatch.chdir(tmp_path)
    run("git", "init", "-q")
    run("dvc", "init", "-q")
    Path("params.yaml").write_text("seeds: [1, 2]\ncolour: null\n")
    Path("dvc.yaml").write_text(GRAPH)
    Path("code.py").write_text("pass\n")
    Path("made").mkdir()
    for path, text in (("made/1.txt", "1\n"), ("made/2.txt", "2\n"), ("all.txt", "1\n2\n"), ("figures.json", "{}\n")):
        Path(path).write_text(text)
    return tmp_path


def test_it_records_what_dvc_commit_records(project: Path) -> None:
    assert done("record") == "dvc.yaml: 3 stages recorded\n"
    recorded = yaml.safe_load(Path("dvc.lock").read_text())
    assert "Data and pipelines are up to date." in run("dvc", "status")
    assert "didn't change, skipping" in run("dvc", "repro")
    Path("dvc.lock").unlink()
    run("dvc", "commit", "-f")
    assert yaml.safe_load(Path("dvc.lock").read_text()) == recorded


def test_what_settings_share_by_an_anchor_is_spelt_out(project: Path) -> None:
    Path("params.yaml").write_text("seeds: [1, 2]\ncolour: {edge: &shade [red, blue], face: *shade}\n")
    done("record")
    assert Path("dvc.lock").read_text().count("- red") == 4  # in either stage that draws, twice


def test_outputs_are_in_the_cache(project: Path) -> None:
    done("record")
    Path("all.txt").unlink()
    run("dvc", "checkout")
    assert Path("all.txt").read_text() == "1\n2\n"


def test_what_is_missing_is_named_and_nothing_is_written(project: Path) -> None:
    Path("made/2.txt").unlink()
    assert refused("record") == "made/2.txt: missing; run `snakemake` to its end first\n"
    assert not Path("dvc.lock").exists()


@pytest.mark.usefixtures("warm_start")
def test_only_what_is_finished_is_recorded(tmp_path: Path) -> None:
    """What Snakemake would make again has no entry in the lock file."""
    project = small_copy(tmp_path)
    run_in(project, "snakemake", "--cores", "2")
    edit(project, {"profile.images": 3})
    said = run_in(project, "python", "-m", "unequal", "record", "--finished")
    names = read_yaml(project / "dvc.lock")["stages"].keys()
    assert said.endswith(f"dvc.yaml: {len(names)} stages recorded\n")
    assert "prepare_data" in names
    assert "profile_floor" not in names
