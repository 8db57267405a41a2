"""What the mathematics does without and the rest needs: libraries that extras of this distribution bring along."""

import json
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from unequal.errors import UserError

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
