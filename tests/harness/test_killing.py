"""The account of kills: what counts as saved, what is compared, and how stages are killed at all."""

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import torch
from kill_at_random import COMMAND, DVC, SNAKEMAKE, WARM, summary, table

from harness.killing import BOTH, SHARER, STAGE, Kill, Killer, never, once_leaving, once_saved, sharers
from harness.starting import Commands, Running
from harness.traces import Stage, Unexpected, clear, leaving, made_by, saved
from unequal.pruning.bank import STATE
from unequal.saved import Saved, write_facts
from unequal.training.checkpoint import write_checkpoint

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
    """Expects what the program says, and that it takes as long as it does."""
    (tmp_path / "out.txt").write_text("the same")
    expected = {"stage": made_by(tmp_path, stage())}
    return Killer(tmp_path, {"stage": 0.25}, expected, Random(0))


def test_a_stage_is_killed_until_it_is_done(killer: Killer) -> None:
    killer.run(stage(), Commands(killer.project))
    assert killer.finished == ["stage"]
    assert killer.kills
    assert {kill.signal for kill in killer.kills} <= {"SIGKILL", "SIGTERM"}
    assert (killer.compared, killer.differing) == (1, [])


def test_a_moment_may_be_one_of_progress(killer: Killer) -> None:
    running = Commands(killer.project).start(stage().words)
    assert not killer.attempt(stage(), running, once_saved(killer.project, stage(), 3))
    assert killer.kills[0].saved >= 3


def test_a_moment_may_be_one_of_the_way_out(killer: Killer) -> None:
    slow = Stage("stage", (sys.executable, "-c", PROGRAM + "time.sleep(300)", "the same"), ("out.txt",))
    clear(killer.project, slow)
    assert not killer.attempt(
        slow, Commands(killer.project).start(slow.words), once_leaving(killer.project, slow, 0.01)
    )
    assert killer.kills[0].late and leaving(killer.project, slow)
    assert not leaving(killer.project, slow, since=time.time() + 1)


def test_of_processes_that_share_a_stage_one_is_killed(killer: Killer) -> None:
    """A launcher that ends with status 1 when its process has been killed."""
    launcher = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(300)']); sys.exit(1)"
    )
    words = (sys.executable, "-c", launcher)
    running = Commands(killer.project).start(words)

    def once_launched(one: Running) -> int | None:
        while sharers(one.pid) == [one.pid]:
            assert one.ended(0.01) is None
        return None

    assert not killer.attempt(stage(), running, once_launched, SHARER)
    assert [(kill.hit, kill.signal) for kill in killer.kills] == [(SHARER, "SIGKILL")]


@pytest.mark.parametrize("change", [lambda out: out.write_text("another"), lambda out: out.unlink()])
def test_what_differs_is_named(killer: Killer, change: Callable[[Path], object]) -> None:
    change(killer.project / "out.txt")
    killer.compare(stage())
    assert killer.differing == ["out.txt"]


def test_a_stage_that_fails_by_itself_is_told_with_what_it_said(killer: Killer) -> None:
    bad = Stage("stage", (sys.executable, "-c", "print('why not'); raise SystemExit(3)"), ())
    with pytest.raises(Unexpected, match=r"stage ended with 3: .*why not"):
        killer.attempt(bad, Commands(killer.project).start(bad.words), never)


def test_nothing_runs_on_when_the_benchmark_is_stopped(killer: Killer) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    running = Commands(killer.project).start((sys.executable, "-c", "import time; time.sleep(600)"))
    with pytest.raises(KeyboardInterrupt):
        killer.attempt(stage(), running, interrupted)
    assert running.ended(10) == -signal.SIGKILL


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


def test_saved_are_steps_parts_and_candidates(tmp_path: Path) -> None:
    pruning = Stage("prune@0", ("python", "-m", "stages.prune", "--method", "expert", "--group", "0"), ())
    assert saved(tmp_path, pruning) == 0
    work = tmp_path / "work/prune-expert-0-0123"
    write_checkpoint(work / "checkpoint.safetensors", Saved({"w": torch.zeros(1)}, {"step": 30}))
    (work / "train").mkdir()
    for name in ("0.chunk", "500.chunk", ".1000.chunk.new"):
        (work / "train" / name).touch()
    write_facts(work / STATE, [{}, {}])
    assert saved(tmp_path, pruning) == 30 + 2 + 2
    (work / "checkpoint.safetensors").rename(work / "before-checkpoint.safetensors")
    assert saved(tmp_path, pruning) == 34
    for other in ("prune-expert-1-0123", "train_base-0123"):
        (tmp_path / "work" / other).mkdir()
    assert saved(tmp_path, pruning) == 34
    (tmp_path / "work/prune-expert-0-4567").mkdir()
    with pytest.raises(Unexpected, match="two states of one stage"):
        saved(tmp_path, pruning)


def test_the_figures_are_sums_over_kinds_and_stages(tmp_path: Path) -> None:
    killers = {kind: Killer(tmp_path, {}, {}, Random(0)) for kind in (WARM, COMMAND, DVC, SNAKEMAKE)}
    killers[WARM].kills = [Kill("train_base", "SIGKILL", 0), Kill("train_base", "SIGTERM", 20)]
    killers[DVC].kills = [Kill("train_base", "SIGKILL", 40, BOTH, late=True), Kill("check_params", "SIGTERM", 0)]
    killers[DVC].finished = ["check_params", "train_base", "prune@1"]
    killers[SNAKEMAKE].kills = [Kill("prune@1", "SIGTERM", 3), Kill("prune@0", "SIGTERM", 5)]
    killers[DVC].differing, killers[DVC].compared = ["a"], 7
    told = json.loads(json.dumps(summary(killers)))
    assert (told["kills"], told["signals"]) == (6, {"SIGKILL": 2, "SIGTERM": 4})
    assert (told["differing_files"], told["compared_files"]) == (["a"], 7)
    assert (told["kinds"][DVC]["hit"], told["kinds"][DVC]["on_the_way_out"]) == ({BOTH: 1, STAGE: 1}, 1)
    assert told["stages"]["train_base"] == {
        "finished": 1,
        "kills": 3,
        "before_anything_was_saved": 1,
        "resumed_from": {"unit": "steps", "least": 20, "most": 40},
    }
    assert told["stages"]["check_params"]["resumed_from"] == {}
    assert told["stages"]["prune"]["resumed_from"] == {"unit": "candidates", "least": 3, "most": 5}


def test_the_table_has_the_kinds_that_were_tried() -> None:
    seen = {"what": "a stage", "kills": 3, "on_the_way_out": 1, "finished": 2, "differing_files": 0}
    found = {
        "kills": 3,
        "signals": {"SIGKILL": 3},
        "compared_files": 8,
        "differing_files": [],
        "kinds": {WARM: seen, DVC: seen | {"what": "an engine", "kills": 0}},
    }
    first, empty, _, _, *rows = table(found).splitlines()
    assert first == "3 kills: 3 by SIGKILL and 0 by SIGTERM. Of 8 files compared, 0 differed."
    assert (empty, rows) == ("", ["| a stage | 3 | 1 | 2 | 0 |"])
