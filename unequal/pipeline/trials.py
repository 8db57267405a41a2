"""Smoke runs: where they lie, and how a project knows where it lies itself."""

from pathlib import Path

from unequal.code import ROOT

#: Folder of all smoke runs, below the checkout; git ignores it.
TRIALS = Path("tries")


def place_below(root: Path = ROOT) -> Path:
    """The project's folder as a path from the checkout, where commands are given; `.` where it lies elsewhere."""
    here = Path.cwd()
    return here.relative_to(root) if here.is_relative_to(root) else Path()


def is_trial(place: Path) -> bool:
    """Say whether a project at a place below the checkout is a smoke run."""
    return place.parent == TRIALS
