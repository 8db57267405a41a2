"""Errors that a user is meant to read, each in one line, and the libraries that an installation lacks."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec


class UserError(Exception):
    """Bad input of any kind, reported in one line: what is wrong, where, and what is allowed.

    Stages print the line and exit with status 1; a library user may catch it.
    """


def one_line(error: BaseException) -> str:
    """Return an exception's message without line breaks."""
    return plain(str(error)) or type(error).__name__


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message; its kind where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def plain(text: str) -> str:
    """Put a text into one line, and escape characters that a terminal does not show or takes for a command."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in " ".join(text.split()))


DISTRIBUTION = "unequal"


class MissingExtra(UserError, ImportError):
    """A package needs libraries that are not installed; the one line says what to install."""


def needs(package: str, extra: str, *libraries: str) -> None:
    """Check at a package's import that its libraries are installed.

    Args:
        package: its dotted name.
        extra: of this distribution, with which the libraries come.
        libraries: names under which they are imported.

    Raises:
        MissingExtra: one of them is missing.
    """
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        what = f"{package} needs what is not installed ({', '.join(missing)})"
        # With this name, `python -m` prints the line alone.
        raise MissingExtra(f"{what}: pip install '{requirement(extra)}'", name=package)


def requirement(extra: str) -> str:
    """Name this distribution with an extra, from its origin: a wheel, a folder or a repository (PEP 610)."""
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a folder on the path
        origin = {}
    name = f"{DISTRIBUTION}[{extra}]"
    if "vcs_info" in origin:
        return f"{name} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    return f"{name} @ {origin['url']}" if "url" in origin else name
