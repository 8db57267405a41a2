"""A wish to stop, granted where the state is whole: SIGTERM (a cluster's time limit, `scancel`) and Ctrl-C."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from unequal.pipeline.processes import stop_signals


@contextmanager
def stop_deferred() -> Iterator[Callable[[], bool]]:
    """Hold signals that end the process back until the block is left; gives a function that says whether one came.

    A cluster may say SIGTERM several times over (srun hands on what Slurm sends as well), which asks for no more
    than once; only a second Ctrl-C, of a person who will not wait, is not held back. Outside of the main thread,
    which alone may handle signals, nothing is.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        if number == signal.SIGINT:
            signal.signal(number, previous[number])

    previous = {int(one): signal.getsignal(one) for one in stop_signals()}
    for one in previous:
        signal.signal(one, note)
    try:
        yield lambda: bool(received)
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)
    if received:
        os.kill(os.getpid(), received[0])
