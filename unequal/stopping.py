"""A wish to stop, granted where the state is whole: SIGTERM (a cluster's time limit, `scancel`) and Ctrl-C."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from unequal.processes import stop_signals


@contextmanager
def stop_deferred() -> Iterator[Callable[[], bool]]:
    """Hold signals that end the process back until the block is left; gives a function that says whether one came.

    A second signal of the kind is not held back. Outside of the main thread, which alone may handle signals,
    nothing is.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return

    def note(number: int, _: FrameType | None) -> None:
        received.append(number)
        restore()

    previous = {one: signal.getsignal(one) for one in stop_signals()}

    def restore() -> None:
        for one, handler in previous.items():
            signal.signal(one, handler)

    for one in previous:
        signal.signal(one, note)
    try:
        yield lambda: bool(received)
    finally:
        restore()
    if received:
        os.kill(os.getpid(), received[0])
