"""Processes that share one piece of work: their number and rank, how they wait for each other, how they stop.

`unequal.pipeline.launcher` starts them. They have a common folder, in which they meet, and a process says that it has
done its part, or why it could not. RANK and WORLD_SIZE count in such a process alone: other launchers, and every pod of
a training operator, set them too.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from unequal.runtime.environment import signals_to_stop

#: Environment variable that names the common folder.
FOLDER = "UNEQUAL_PROCESSES_FOLDER"
#: The signal to stop of launched processes. Those of a terminal or a cluster reach every process of a job, so they are
#: ignored there, while the launcher's own comes once.
LAUNCHED = (signal.SIGUSR1,)
POLL_SECONDS = 0.02


def count() -> int:
    """Count the processes."""
    return 1 if folder() is None else int(os.environ["WORLD_SIZE"])


def rank() -> int:
    """Return the number of this process, from 0; the first one leads."""
    return 0 if folder() is None else int(os.environ["RANK"])


def folder() -> Path | None:
    """Return the common folder of launched processes."""
    common = Path(os.environ.get(FOLDER, ""))
    return common if FOLDER in os.environ and common.is_dir() else None


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask this process to stop."""
    return signals_to_stop() if folder() is None else LAUNCHED


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for another process; the launcher ends this one if that one fails."""
    while not condition():
        time.sleep(POLL_SECONDS)


def agreed(decide: Callable[[], bool], name: str = "finished") -> bool:
    """Return the leading process's decision, for which the others wait."""
    common = folder()
    if common is None:
        return decide()
    yes, no = common / f"{name}-yes", common / f"{name}-no"
    if rank() == 0:
        answer = decide()
        (yes if answer else no).touch()
        return answer
    wait_until(lambda: yes.exists() or no.exists())
    return yes.exists()


def wait_for_others() -> None:
    """Say that this process has done its part; the leading one waits until all have."""
    common = folder()
    if common is None:
        return
    done = [common / f"done-{number}" for number in range(count())]
    done[rank()].touch()
    if rank() == 0:
        wait_until(lambda: all(file.exists() for file in done))


def meet(backend: str) -> None:
    """Connect launched processes, by a file: a port could be taken meanwhile."""
    import torch  # a launcher does without: it takes seconds

    if (common := folder()) is None or torch.distributed.is_initialized():
        return
    store = torch.distributed.FileStore(str(common / "processes"), count())  # type: ignore[attr-defined]
    torch.distributed.init_process_group(backend, store=store, rank=rank(), world_size=count())


def failure_file(common: Path, number: int) -> Path:
    """Name the file in which a process says why it failed."""
    return common / f"failure-{number}"


#: End of the line of a stage that was stopped.
GOES_ON = "the same command goes on"
#: Where this process's work was stopped, if that is known.
_stopped_at: list[str] = []


def describe_stop(where: str) -> None:
    """Note where work was stopped, as in `at step 5 of 10`."""
    _stopped_at[:] = [where]


def stop_line() -> str:
    """Say that the work was stopped, where, and how it goes on."""
    return " ".join(["stopped", *_stopped_at]) + f"; {GOES_ON}"


@contextmanager
def stop_deferred() -> Iterator[Callable[[], bool]]:
    """Defer signals to stop until the block is left; yield a function that says whether one came.

    A cluster may send SIGTERM several times (srun forwards Slurm's as well), which counts once; a second Ctrl-C, of a
    person who will not wait, is not deferred. Outside the main thread, which alone may handle signals, none is.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(number, previous[number])

    previous = {int(number): signal.getsignal(number) for number in stop_signals()}
    for number in previous:
        signal.signal(number, note)
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    if received:
        os.kill(os.getpid(), received[0])


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute with `count` threads within the block, for tensors and arrays, whatever cores and engine there are.

    Their number decides how a sum rounds, so it is a setting. One is the quickest for small networks where stages run
    side by side, or the machine does other things: threads that share a step wait for the last of them.
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    with threadpool_limits(count):
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)
