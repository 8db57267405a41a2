"""A stage as a program: it ends in one line where a user can mend what is wrong, or by its signal."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from unequal.errors import UserError, one_line, plain, say
from unequal.pipeline.naming import leaves
from unequal.runtime.environment import STOPS, Stopped, drop_variables, prepare_streams
from unequal.runtime.files import storage_refusal
from unequal.runtime.processes import LAUNCHED, failure_file, folder, rank, stop_line, stop_signals
from unequal.settings.strict import StageSettings


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
