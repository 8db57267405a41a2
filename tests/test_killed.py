"""Every long stage, killed once at a random point and run again, makes the files that it makes unkilled."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from harness.projects import tiny_copy
from harness.starting import Warm, WarmProcess, log_of
from harness.traces import Stage, clear, made_by, saved, stages_up_to

pytestmark = pytest.mark.slow

#: Another one every time; a failure names it, and the environment brings it back.
SEED = int(os.environ.get("KILL_SEED", time.time_ns() % 2**32))
#: Budgets of a tiny project whose long stages save many times in a second or two.
SETTINGS: dict[str, object] = {
    **{"training.log_every": 7, "training.checkpoint_every": 10, "training.batch_size": 32},
    **{"recipes.base.images": 3200, "recipes.expert.images": 1600, "profile.images": 4},
    **{"pruning.expert.rounds": 3, "pruning.expert.candidates": 3},
    **{"profiled_models": ["base"], "scored_models": ["base", "experts_pruned"], "sampling.steps": 10},
    **{"sampling.batch_size": 20, "evaluation.samples": 400, "evaluation.kid_subset": 100},
}
#: Stage instances that save on their way, each after those that it needs, and what each saves at least before its end:
#: steps of a training, parts of a profile or of samples, candidates of a search.
LONG_STAGES = {
    "train_base": 40,
    "profile_floor": 18,
    "profile_loss@base": 18,
    "prune@0": 9,
    "finetune_groups@0": 40,
    "evaluate_fid@experts_pruned": 18,
}
#: It stands for the others, which need more stages; tests of profiles and searches stop these within a process.
OFTEN = {"train_base"}
#: Longest wait for a stage that is not killed, or was, in seconds; and between two looks at it.
PATIENCE_SECONDS, GLANCE_SECONDS = 300, 0.01


@dataclass(frozen=True)
class Unkilled:
    """A tiny project, how to start stages in it, and the digests of what each made that has run."""

    project: Path
    start: Callable[..., WarmProcess]
    made: dict[str, dict[str, str]]

    def ran(self, name: str) -> Stage:
        """A stage, which has run, after those that it needs."""
        *_, wanted = stages = stages_up_to(self.project, [name])
        for stage in (one for one in stages if one.name not in self.made):
            assert self.start(stage.words).ended(PATIENCE_SECONDS) == 0, log_of(self.project).read_text()
            self.made[stage.name] = made_by(self.project, stage)
        assert self.made[name]
        return wanted


@pytest.fixture(scope="module")
def unkilled(tmp_path_factory, warm_place):
    project = tiny_copy(tmp_path_factory.mktemp("killed"), SETTINGS)
    return Unkilled(project, Warm(project, warm_place).start, {})


@pytest.mark.parametrize(
    "name", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.thorough) for name in LONG_STAGES]
)
def test_a_stage_that_was_killed_goes_on_to_the_same_bytes(unkilled, name):
    project, stage, random = unkilled.project, unkilled.ran(name), Random(f"{SEED} {name}")
    point, number = random.randint(1, LONG_STAGES[name]), random.choice((signal.SIGKILL, signal.SIGTERM))
    while not was_killed(unkilled, stage, point, number):
        # On a busy machine the rest of a stage fits between two looks: an earlier point then.
        point //= 2
    case = f"KILL_SEED={SEED}: {name}, {number.name} once {point} were saved"
    assert saved(project, stage) >= point > 0, case
    assert unkilled.start(stage.words).ended(PATIENCE_SECONDS) == 0, case
    assert made_by(project, stage) == unkilled.made[name], case


def was_killed(unkilled: Unkilled, stage: Stage, point: int, number: signal.Signals) -> bool:
    """Start a stage and kill it once so many were saved; False if it had ended by then."""
    clear(unkilled.project, stage)
    running = unkilled.start(stage.words)
    try:
        while (status := running.ended(GLANCE_SECONDS)) is None:
            with suppress(FileNotFoundError, ProcessLookupError):  # moved meanwhile; ended meanwhile
                if saved(unkilled.project, stage) >= point:
                    os.kill(running.pid, number)
                    status = running.ended(PATIENCE_SECONDS)
                    break
        assert status in (0, -number, 128 + number), f"{stage.name} ended with {status}"
        return status != 0
    finally:
        if running.ended(0) is None:
            os.kill(running.pid, signal.SIGKILL)
