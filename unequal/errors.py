"""Errors that a user is meant to read, each in one line, and the libraries that an installation lacks."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec


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


DISTRIBUTION = "unequal"


class MissingExtra(UserError, ImportError):
    """A package needs libraries that are not installed; the one line says what to install."""


def needs(package: str, extra: str, *libraries: str) -> None:
    """Have a package say at its import what it misses.

    Args:
        package: its dotted name.
        extra: of this distribution, with which the libraries come.
        libraries: names by which they are imported.

    Raises:
        MissingExtra: one of them is not there.
    """
    missing = [name for name in libraries if find_spec(name) is None]
    if missing:
        what = f"{package} needs what is not installed ({', '.join(missing)})"
        # Of an import that has failed by this name, `python -m` tells the line alone.
        raise MissingExtra(f"{what}: pip install '{requirement(extra)}'", name=package)


def requirement(extra: str) -> str:
    """This distribution with an extra, from where it was installed: a wheel, a folder or a repository (PEP 610)."""
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # a folder on the path
        origin = {}
    wanted = f"{DISTRIBUTION}[{extra}]"
    if "vcs_info" in origin:
        return f"{wanted} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    return f"{wanted} @ {origin['url']}" if "url" in origin else wanted
