"""Errors that a user is meant to read, each in one line, and the libraries that an installation lacks."""

import json
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec


class UserError(Exception):
    """Bad input of any kind, reported in one line: what is wrong, where, and what is allowed.

    Stages print the line and exit with status 1; a library user may catch it.
    """

    def __str__(self) -> str:
        """The line; it may quote a file of somebody else, whose text must not write lines or move a cursor."""
        return plain(super().__str__())


def say(*lines: object, err: bool = False) -> None:
    """Print lines, each as one: line breaks and escapes within are shown as text. All that is printed goes this way."""
    for line in lines:
        print(escaped(str(line).expandtabs()), file=sys.stderr if err else sys.stdout, flush=True)


def escaped(text: str) -> str:
    """Escape characters that a terminal does not show or takes for a command, line breaks among them."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


class UserErrors(UserError):
    """Several errors, each in one line."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines)
        self.lines = lines

    def __str__(self) -> str:
        return "\n".join(map(plain, self.lines))


class Diverged(UserError):
    """The loss of a training or its gradient has become NaN or infinite."""


def one_line(error: BaseException) -> str:
    """Return an exception's message without line breaks."""
    return plain(str(error)) or type(error).__name__


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, with the next one where it ends in a colon; else its kind.

    Sentences that advise to load a file without safety are left out.
    """
    lines = str(error).strip().splitlines() or [type(error).__name__]
    sentences = re.split(r"(?<=[.;!?]) ", plain(" ".join(lines[: 2 if lines[0].endswith(":") else 1])))
    return " ".join(one for one in sentences if not UNSAFE.search(one)) or type(error).__name__


def plain(text: str) -> str:
    """Put a text into one line, and escape characters that a terminal does not show or takes for a command."""
    return escaped(" ".join(text.split()))


#: Words of advice to unpickle a file, or to run code of a model's folder.
UNSAFE = re.compile("weights_only|allow_pickle|use_safetensors|safe_serialization|trust_remote_code|arbitrary code")
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
    if gone := missing(libraries):
        what = f"{package} needs what is not installed ({', '.join(gone)})"
        # With this name, `python -m` prints the line alone.
        raise MissingExtra(f"{what}: pip install '{requirement(extra)}'", name=package)


def missing(libraries: Iterable[str]) -> list[str]:
    """Names of those of some libraries that are not installed."""
    return [name for name in libraries if find_spec(name) is None]


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
