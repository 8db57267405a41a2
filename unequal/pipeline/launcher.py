"""Start a stage in several processes, one a GPU or `runtime.processes`, which share one global batch.

Their number changes results by rounding alone. The launcher forwards signals to all of them, ends all if one fails, and
says why in one line; if it is killed itself, they end with it. torchrun kills what has not saved its state within 30
seconds of a signal, and prints a page for each failure.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from unequal.errors import UserError, say
from unequal.runtime.environment import signals_to_stop
from unequal.runtime.processes import FOLDER, LAUNCHED, failure_file, folder
from unequal.settings.strict import PARAMS
from unequal.settings.training import Runtime

#: How long processes may take to end when another one has failed.
GRACE_SECONDS = 20.0
POLL_SECONDS = 0.05


def num_processes(runtime: Runtime) -> int:
    """Count the processes to start; 1 where this is one of several already.

    Raises:
        UserError: more processes than GPUs.
    """
    if folder() is not None:
        return 1
    gpus = 0
    if runtime.device != "cpu" and runtime.processes != 1:
        import torch  # where it matters alone

        gpus = torch.cuda.device_count()
    count = runtime.processes or max(1, gpus)
    if gpus and count > gpus:
        raise UserError(f"{PARAMS}: runtime.processes: {count}: one a GPU; allowed here: 1 … {gpus}, or null for all")
    return count


def launch(count: int, command: Sequence[str], threads: int = 1) -> int:
    """Run a command in processes of so many threads. Returns the exit status, 0 where all have succeeded."""
    with tempfile.TemporaryDirectory(prefix="unequal-") as common, ProcessGroup(Path(common), threads) as launched:
        for number in range(count):
            launched.start(number, count, command)
        if (failed := launched.first_failure()) is None:
            return 0
        if launched.stopped_by is not None:
            return 128 + launched.stopped_by
        if message := launched.reason(failed):
            say(*message.split("\n"), err=True)
        return max(1, launched.processes[failed].returncode)


class ProcessGroup:
    """Processes that receive every signal to stop, and have ended when the block is left.

    Attributes:
        threads: of each.
        processes: in the order of their rank.
        stopped_by: the first signal to stop, if one came.
    """

    def __init__(self, common: Path, threads: int) -> None:
        self.common, self.threads = common, threads
        self.processes: list[subprocess.Popen[bytes]] = []
        self.stopped_by: int | None = None

    def __enter__(self) -> Self:
        self.previous = {number: signal.signal(number, self.on_signal) for number in signals_to_stop()}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        self.signal_all(signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def start(self, number: int, count: int, command: Sequence[str]) -> None:
        """Start the process of a rank."""
        ranks = {"WORLD_SIZE": str(count), "RANK": str(number), "LOCAL_RANK": str(number), FOLDER: str(self.common)}
        # Without the address and the threads, Accelerate would complain, and choose threads of its own.
        needed = {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": str(self.threads)}
        environment = os.environ | ranks | needed
        # In a session of its own: a terminal's Ctrl-C reaches the launcher alone.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, start_new_session=True)
        self.processes.append(process)
        if self.stopped_by is not None:
            process.send_signal(LAUNCHED[0])

    def on_signal(self, number: int, _: FrameType | None) -> None:
        """Forward the first signal; a second Ctrl-C kills all."""
        if self.stopped_by is None:
            self.stopped_by = number
            self.signal_all()
        elif number == signal.SIGINT:
            self.signal_all(signal.SIGKILL)

    def signal_all(self, number: int = LAUNCHED[0]) -> None:
        """Signal all processes, by default to stop."""
        for process in self.processes:
            process.send_signal(number)

    def running(self) -> bool:
        """Say whether a process still runs."""
        return any(process.poll() is None for process in self.processes)

    def failures(self) -> list[int]:
        """List the processes that failed, killed ones first: the others failed because those were missing."""
        ended = [number for number, process in enumerate(self.processes) if process.poll()]
        return sorted(ended, key=lambda number: self.processes[number].returncode > 0)

    def first_failure(self) -> int | None:
        """Wait for all processes; return the number of the first that failed, after which the others have to end."""
        while self.running() and not self.failures():
            time.sleep(POLL_SECONDS)
        failed = next(iter(self.failures()), None)
        if failed is not None and self.stopped_by is None:
            self.signal_all()
        deadline = time.monotonic() + GRACE_SECONDS
        while self.running() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return failed

    def reason(self, failed: int) -> str | None:
        """Say why processes ended: the signal that killed one, or the message of the first that failed, if any."""
        count = len(self.processes)
        if (status := self.processes[failed].returncode) < 0:
            return f"process {failed} of {count} was ended by {signal.Signals(-status).name}; all have been stopped"
        left = [path for number in range(count) if (path := failure_file(self.common, number)).exists()]
        return min(left, key=lambda path: path.stat().st_mtime_ns).read_text(encoding="utf-8") if left else None
