"""The account of kills: what counts as saved, what is compared, and how stages are killed at all."""

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from harness.killing import BOTH, STAGE, Killer
from harness.starting import Commands
from harness.traces import Stage, clear, made_by

LOG = '{"step": 1, "loss": 0.5, "images_per_second": 10.0}\n'
#: A program that saves a part after the other, goes on from what there is, and writes their sum at last.
PROGRAM = """
import sys, time
from pathlib import Path
work = Path("work/stage-0123")
work.mkdir(parents=True, exist_ok=True)
for part in (work / f"{number}.chunk" for number in range(5)):
    if not part.exists():
        end = time.process_time() + 0.05
        while time.process_time() < end: pass
        part.touch()
Path("out.txt").write_text(sys.argv[1])
for file in work.iterdir(): file.unlink()
work.rmdir()
"""


def stage(said: str = "the same") -> Stage:
    return Stage("stage", (sys.executable, "-c", PROGRAM, said), ("out.txt",))


@pytest.fixture
def killer(tmp_path: Path) -> Killer:
    (tmp_path / "out.txt").write_text("the same")
    expected = {"stage": made_by(tmp_path, stage())}
    return Killer(tmp_path, {"stage": 0.25}, expected, Random(0))


def test_a_stage_is_killed_until_it_is_done(killer: Killer) -> None:
    killer.run(stage(), Commands(killer.project))
    assert killer.finished == ["stage"]
    assert killer.kills
    assert {kill.signal for kill in killer.kills} <= {"SIGKILL", "SIGTERM"}
    assert (killer.compared, killer.differing) == (1, [])


@pytest.mark.parametrize("change", [lambda out: out.write_text("another"), lambda out: out.unlink()])
def test_what_differs_is_named(killer: Killer, change: Callable[[Path], object]) -> None:
    change(killer.project / "out.txt")
    killer.compare(stage())
    assert killer.differing == ["out.txt"]


@pytest.mark.parametrize("hit", [STAGE, BOTH])
def test_an_engine_is_run_again_until_it_is_done(killer: Killer, hit: str) -> None:
    """An engine that runs one program and ends as it ends."""
    engine = f"import subprocess, sys; sys.exit(subprocess.run({list(stage().words)!r}).returncode != 0)"
    clear(killer.project, stage())
    killer.seconds = {"stage": 0.15}
    killer.through((sys.executable, "-c", engine), [stage()], [hit])
    assert killer.finished == ["stage"]
    assert {kill.hit for kill in killer.kills} == {hit}
    assert (killer.compared, killer.differing) == (1, [])


def test_speeds_are_not_compared(tmp_path: Path) -> None:
    outputs = Stage("train", (), ("log.jsonl", "curve.csv", "model"))
    (tmp_path / "model").mkdir()
    (tmp_path / "model/weights").write_bytes(b"1")
    (tmp_path / "log.jsonl").write_text(LOG)
    (tmp_path / "curve.csv").write_text("step,images_per_second\n1,10.0\n")
    first = made_by(tmp_path, outputs)
    (tmp_path / "log.jsonl").write_text(LOG.replace("10.0", "11.0"))
    (tmp_path / "curve.csv").write_text("step,images_per_second\n1,11.0\n")
    assert made_by(tmp_path, outputs) == first
    (tmp_path / "log.jsonl").write_text(LOG.replace("0.5", "0.6"))
    assert {name for name, digest in made_by(tmp_path, outputs).items() if digest != first[name]} == {"log.jsonl"}
