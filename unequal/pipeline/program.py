"""A stage as a program: start it in several processes, one a GPU or `runtime.processes`, and end it.

The processes share one global batch, so their number changes results by rounding alone. The launcher forwards
signals to all of them, ends all if one fails, and says why in one line; if it is killed itself, they end with it.

A program ends at once if all went well, else in one line where a user can mend it, or by its signal.
"""

import atexit
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import NoReturn, Self

from unequal.errors import UserError, one_line, plain, say
from unequal.pipeline.attempt import ENGINE, engine_run
from unequal.pipeline.naming import leaves
from unequal.runtime.environment import STOPS, Stopped, drop_variables, prepare_streams, signals_to_stop
from unequal.runtime.files import storage_refusal
from unequal.runtime.processes import FOLDER, LAUNCHED, failure_file, folder, rank, stop_line, stop_signals
from unequal.settings.strict import PARAMS, StageSettings
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
        ordered_by = {} if (name := engine_run()) is None else {ENGINE: name}
        ranks = {"WORLD_SIZE": str(count), "RANK": str(number), "LOCAL_RANK": str(number), FOLDER: str(self.common)}
        # Without the address and the threads, Accelerate would complain, and choose threads of its own.
        needed = {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": str(self.threads)}
        environment = os.environ | ordered_by | ranks | needed
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


def follow_launcher() -> None:
    """In a launched process: stop by the launcher's signal alone, and end with it.

    The launcher holds the other end of the standard input, which the system closes however the launcher ends.
    """
    if folder() is None:
        return

    def watch() -> None:
        os.read(0, 1)
        os.kill(os.getpid(), signal.SIGKILL)

    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


def leave_reason(message: str) -> bool:
    """In a launched process, leave the launcher a message to show; return False in any other."""
    common = folder()
    if common is None:
        return False
    failure_file(common, rank()).write_text(message, encoding="utf-8")
    return True


@contextmanager
def errors_reported(name: str) -> Iterator[None]:
    """Report an error that a user can mend in one line and exit with status 1; interruptions exit quietly."""
    drop_variables(launched=folder() is not None)
    prepare_streams()
    follow_launcher()
    previous = {one: signal.signal(one, on_stop_signal) for one in stop_signals()}
    try:
        yield
    except UserError as error:
        exit_with_lines(name, getattr(error, "lines", [str(error)]))
    except Stopped as stopped:
        report_stop(name)
        sys.exit(128 + stopped.number)
    except Exception as error:
        refusal = storage_refusal(error)
        if stop_requested():
            report_stop(name)
            sys.exit(128 + signal.SIGTERM)
        if refusal is None:
            if leave_reason(traceback.format_exc()):
                sys.exit(1)
            raise
        exit_with_lines(name, [refusal])
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)


def report_stop(name: str) -> None:
    """Print where the stage was stopped; of processes that share it, the first does.

    Where another one has failed, its reason is all there is to say.
    """
    common = folder()
    failed = common is not None and any(common.glob("failure-*"))
    if rank() == 0 and not failed:
        with suppress(OSError):
            say(f"{name}: {stop_line()}", err=True)


def on_stop_signal(number: int, _: FrameType | None) -> NoReturn:
    """Stop as the signal asks; another one, but for a second Ctrl-C, must not interrupt the clean-up."""
    for one in {number, *stop_signals()} - {signal.SIGINT}:
        signal.signal(one, signal.SIG_IGN)
    raise Stopped(signal.SIGTERM if number in LAUNCHED else number)


def stop_requested() -> bool:
    """Say whether `on_stop_signal` has been called: an error after that comes from a library that caught `Stopped`."""
    return signal.getsignal(stop_signals()[0]) is signal.SIG_IGN


def exit_at_once() -> None:
    """End the process with status 0 before Python unloads all modules, a third of the work of importing them.

    Exit functions run first. Returns where more is to be done: another thread still works, or the streams cannot be
    written.
    """
    main = threading.main_thread()
    if any(thread is not main and not thread.daemon for thread in threading.enumerate()):
        return
    atexit._run_exitfuncs()
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def exit_with_lines(name: str, messages: Sequence[str]) -> None:
    """Print a line for each message on stderr and exit with status 1."""
    lines = [f"{name}: {plain(message)}" for message in messages]
    if not leave_reason("\n".join(lines)):
        say(*lines, err=True)
    sys.exit(1)


#: How PyTorch says so where it has no class for it: for the host's memory, and for a library on the GPU.
SIGNS = ("can't allocate memory", "std::bad_alloc", "ALLOC_FAILED", "CUDA error: out of memory")
QUOTED = 160
#: Settings that take memory where no batch does.
COUNTS = ("samples", "images", "features")


def memory_refusal(error: BaseException, settings: StageSettings, keys: Mapping[str, str]) -> str | None:
    """Say in one line that memory ran out and what to lower; None for any other error.

    Args:
        error: the error that ended the stage.
        settings: the stage's settings.
        keys: field of the settings → dotted key in params.yaml.
    """
    if not out_of_memory(error):
        return None
    remedies = remedies_in(settings, keys)
    advice = "; " + " or ".join(remedies) if remedies else ""
    return f"out of memory ({one_line(error)[:QUOTED]}){advice}"


def out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that the memory of a GPU or of the machine is full."""
    torch = sys.modules.get("torch")
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)


def remedies_in(settings: StageSettings, keys: Mapping[str, str]) -> list[str]:
    """List the settings of a stage that reduce its memory, those first that change no result."""
    dumped = settings.model_dump(mode="json")
    declared = [dotted for dotted, _ in leaves({dotted: dumped[field] for field, dotted in keys.items()})]
    parts = [f"raise {dotted}" for dotted in declared if dotted.endswith("gradient_accumulation")]
    parts += [f"lower {dotted}" for dotted in declared if dotted.endswith("batch_size")]
    return parts or [f"lower {dotted}" for dotted in declared if dotted.endswith(COUNTS)]
