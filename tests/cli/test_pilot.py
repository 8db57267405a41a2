"""The pilot of a study: the engine is asked for it alone, and what it tells is shown."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import done, refused
from snakemake.exceptions import LockException

from unequal.cli import pilot
from unequal.files import write_json

FOUND: dict[str, Any] = {
    "endpoints": {
        "fid": {
            "delta": 0.05,
            "visible_effect": 0.081,
            "deviation": 0.021,
            "upper_deviation": 0.032,
            "freedom": 4,
            "slope_per_doubling": -0.31,
            "images_worth_delta": 1.12,
            "needed": 0.05,
            "blocks_needed": None,
        }
    },
    "tries": {"joint": {"best": "half", "tried": {"own": {}, "half": {}}}},
    "block_seconds": 1440.0,
    "study_seconds": 7200.0,
}


@pytest.fixture
def asked(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What Snakemake was asked for, in place of which the pilot's file appears."""
    calls: list[tuple[Any, ...]] = []

    def engine(root: Path, folder: Path, environment: dict[str, str], *options: str) -> Any:
        calls.append((folder, options))
        write_json(root / folder / pilot.PILOT, FOUND)
        return subprocess.CompletedProcess([], 0, "")

    (project / ".git").mkdir()
    (project / "studies/one").mkdir(parents=True)
    monkeypatch.setattr(pilot, "checkout", lambda _: project)
    monkeypatch.setattr(pilot, "snakemake", engine)
    return calls


def test_the_engine_is_asked_for_the_pilot_alone(project: Path, asked: list[tuple[Any, ...]]):
    (project / "studies/one/dvc.yaml").touch()
    output = done("pilot", "studies/one", "--cores", "1")
    assert asked == [(Path("studies/one"), ("--cores", "1", "check_params", "judge_pilot"))]
    fid = output.splitlines()[1].split()
    assert fid == ["fid", "5.00%", "8.10%", "5.00%", "2.10%", "3.20%", "4", "-31.00%", "×", "1.12", ">", "40", "–"]
    assert "joint: best of own, half: half" in output
    assert "the study as planned, on one thread here: 2.0 h" in output


def test_what_the_needed_blocks_take_is_told(project: Path, asked: list[tuple[Any, ...]]):
    assert pilot.price(10, FOUND["block_seconds"]) == "4.0 h"
    assert pilot.times(None) == "–"


def test_what_is_no_study_is_refused(asked: list[tuple[Any, ...]]):
    assert refused("pilot", "studies/one").endswith(": no study; allowed: a folder with params.yaml and dvc.yaml\n")
    assert not asked


def test_another_run_in_the_same_folder_is_told_of_in_a_line(project: Path, monkeypatch: pytest.MonkeyPatch):
    (project / "studies/one").mkdir(parents=True)
    (project / "studies/one/dvc.yaml").touch()
    with pytest.MonkeyPatch.context() as inside:
        inside.chdir(project / "studies/one")
        said = str(LockException())
    failed = subprocess.CompletedProcess([], 1, f"Building DAG of jobs…\n{said}\n")
    monkeypatch.setattr(pilot, "checkout", lambda _: project)
    monkeypatch.setattr(pilot, "snakemake", lambda *_: failed)
    assert refused("pilot", "studies/one").endswith(": another run is under way there; wait until it has ended\n")
