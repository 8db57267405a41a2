"""How a stage program ends: at once if well, else in one line where a user can mend it, or by its signal."""

import atexit
import errno
import os
import shutil
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from unequal import processes
from unequal.errors import UserError, one_line, plain
from unequal.pipeline.launching import follow_launcher, leave_reason
from unequal.pipeline.store import leaves
from unequal.settings.strict import StageSettings

#: Refusals of a disk that are no fault of the program, also where the error does not name the file.
STORAGE_ERRORS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES),
    *(errno.EIO, errno.ESTALE, errno.EFBIG, errno.EMFILE, errno.ENFILE),
)


@contextmanager
def errors_reported(name: str) -> Iterator[None]:
    """Report an error that a user can mend in one line and exit with status 1; interruptions exit quietly."""
    follow_launcher()
    stops = processes.stop_signals()[0]
    previous = signal.signal(stops, on_stop_signal)
    try:
        yield
    except UserError as error:
        exit_with_line(name, str(error))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        refusal = storage_refusal(error)
        if stop_requested():
            sys.exit(128 + signal.SIGTERM)
        if refusal is None:
            if leave_reason(traceback.format_exc()):
                sys.exit(1)
            raise
        exit_with_line(name, refusal)
    finally:
        signal.signal(stops, previous)


def on_stop_signal(number: int, _: FrameType | None) -> NoReturn:
    """Exit as SIGTERM does; a second one must not interrupt the clean-up."""
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


def stop_requested() -> bool:
    """Say whether `on_stop_signal` has been called: an error after that comes from a library that caught the exit."""
    return signal.getsignal(processes.stop_signals()[0]) is signal.SIG_IGN


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


def exit_with_line(name: str, message: str) -> None:
    """Print one line on stderr and exit with status 1."""
    line = f"{name}: {plain(message)}"
    if not leave_reason(line):
        click.echo(line, err=True)
    sys.exit(1)


def storage_refusal(error: Exception) -> str | None:
    """Say which path the disk refused, and why; None for any other error."""
    if isinstance(error, OSError) and error.errno and (error.filename or error.errno in STORAGE_ERRORS):
        return f"{error.filename or Path.cwd()}: {os.strerror(error.errno)}"
    # Libraries that write files by themselves wrap a full disk in errors of their own, and NumPy names no cause.
    full = os.strerror(errno.ENOSPC)
    if full in str(error) or shutil.disk_usage(Path.cwd()).free == 0:
        return f"{Path.cwd()}: {full}"
    return None


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
