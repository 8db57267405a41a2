"""The command `unequal`, called in this process."""

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from unequal.cli.main import run


@dataclass(frozen=True)
class Called:
    """Exit status and what was printed."""

    status: int
    out: str
    error: str


def call(*arguments: object) -> Called:
    """Call `unequal` with arguments."""
    out, error, status = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(error):
        try:
            run([str(one) for one in arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
    return Called(status, out.getvalue(), error.getvalue())


def done(*arguments: object) -> str:
    """Standard output of a call that succeeds."""
    called = call(*arguments)
    assert called.status == 0, called.error
    return called.out


def refused(*arguments: object) -> str:
    """The one line of a call that is refused, without `Error: `."""
    called = call(*arguments)
    assert (called.status, called.error.count("\n")) == (1, 1), called
    assert called.error.startswith("Error: ")
    return called.error.removeprefix("Error: ")
