"""Processes that do one piece of work together: who this one is, and how it hears of the others.

RANK and WORLD_SIZE are those that torch.distributed reads. What `unequal.pipeline.launching` has started has a
folder in common besides, in which a process says that it has done its part, or why it could not.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

#: Environment variable that names the common folder.
FOLDER = "UNEQUAL_PROCESSES_FOLDER"
#: The signals by which a process is asked to stop. Those of a terminal or a cluster reach every process of a
#: job, so one that was launched waits for the word of the launcher, which comes once.
OUTSIDE, LAUNCHED = (signal.SIGTERM, signal.SIGINT), (signal.SIGUSR1,)
POLL_SECONDS = 0.02


def count() -> int:
    """How many processes there are."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """Number of this process, from 0; the first one leads."""
    return int(os.environ.get("RANK", "0"))


def folder() -> Path | None:
    """The common folder of launched processes."""
    return Path(os.environ[FOLDER]) if FOLDER in os.environ else None


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that ask this process to stop."""
    return OUTSIDE if folder() is None else LAUNCHED


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does; whoever launched both ends this one where that one fails."""
    while not condition():
        time.sleep(POLL_SECONDS)


def can_agree() -> bool:
    """Whether the processes hear of each other, if there are several; those of a launcher not ours do not."""
    return count() == 1 or folder() is not None


def agreed(decide: Callable[[], bool]) -> bool:
    """What the process that leads decides, for all: the others go on when it has; where they cannot hear of it, no."""
    common = folder()
    if rank() == 0:
        answer = decide()
        if common is not None:
            decided_file(common, answer).touch()
        return answer
    if common is None:
        return False
    wait_until(lambda: any(decided_file(common, answer).exists() for answer in (True, False)))
    return decided_file(common, True).exists()


def wait_for_others() -> None:
    """Say that this process has done its part; the one that leads returns when all have said so."""
    common = folder()
    if common is None:
        return
    done_file(common, rank()).touch()
    if rank() == 0:
        wait_until(lambda: all(done_file(common, number).exists() for number in range(count())))


def done_file(common: Path, number: int) -> Path:
    """What a process leaves when it has done its part."""
    return common / f"done-{number}"


def decided_file(common: Path, answer: bool) -> Path:
    """What the process that leads leaves as its answer."""
    return common / f"decided-{'yes' if answer else 'no'}"


def failure_file(common: Path, number: int) -> Path:
    """Where a process says why it failed."""
    return common / f"failure-{number}"
