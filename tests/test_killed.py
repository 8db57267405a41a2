"""Every long stage, killed once at a random point and run again, makes the files that it makes unkilled."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from harness.killing import LONG_STAGES, SETTINGS, Killer, measured, never, once_saved
from harness.projects import tiny_copy
from harness.starting import Warm
from harness.traces import Stage, clear, stages_up_to

pytestmark = pytest.mark.slow

#: Another one every time; a failure names it, and the environment brings it back.
SEED = int(os.environ.get("KILL_SEED", time.time_ns() % 2**32))
#: So much each stage saves at least, without its last state.
SAVED = {"steps": 40, "parts": 18, "candidates": 9}


@dataclass(frozen=True)
class Unkilled:
    """A tiny project whose stages have run, and how to start them again."""

    killer: Killer
    stages: dict[str, Stage]
    starter: Warm


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory: pytest.TempPathFactory, warm_place: Path) -> Unkilled:
    project = tiny_copy(tmp_path_factory.mktemp("killed"), SETTINGS)
    stages = stages_up_to(project, [*LONG_STAGES])
    starter = Warm(project, warm_place)
    seconds, expected = measured(project, stages, starter)
    assert all(expected.values())
    return Unkilled(Killer(project, seconds, expected, Random(SEED)), {stage.name: stage for stage in stages}, starter)


@pytest.mark.parametrize("name", LONG_STAGES)
def test_a_stage_that_was_killed_goes_on_to_the_same_bytes(unkilled: Unkilled, name: str) -> None:
    killer, stage, start = unkilled.killer, unkilled.stages[name], unkilled.starter.start
    killer.random.seed(f"{SEED} {name}")
    point = killer.random.randint(1, SAVED[LONG_STAGES[name]])
    clear(killer.project, stage)
    ended = killer.attempt(stage, start(stage.words), once_saved(killer.project, stage, point))
    state = f"KILL_SEED={SEED}: {killer.kills[-1:]} once {point} {LONG_STAGES[name]} were saved"
    assert not ended, state
    assert killer.kills[-1].saved >= point, state
    assert killer.attempt(stage, start(stage.words), never), state
    killer.compare(stage)
    assert not killer.differing, state
