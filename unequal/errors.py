"""The one exception that a user is meant to read, and others in one line."""


class UserError(Exception):
    """Bad input of any kind, said in one line: what is wrong, where, and what is allowed.

    Stages print the line and exit with status 1; a library user may catch it.
    """


def one_line(error: BaseException) -> str:
    """What an exception says, without line breaks."""
    return plain(str(error)) or type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of what an exception says; its kind where it says nothing."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def plain(text: str) -> str:
    """A text in one line, with escapes in the place of what no terminal shows, or takes for a command."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in " ".join(text.split()))
