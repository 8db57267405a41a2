"""Smoke runs: where they lie, and how a project knows that it is one."""

from pathlib import Path

#: Folder of all smoke runs, below the folder that they try; git ignores it.
TRIALS = Path("tries")


def place_below() -> Path:
    """Path of a smoke run from the folder that it tries, where commands are given; `.` of any other folder."""
    here = Path.cwd()
    return here.relative_to(here.parents[1]) if here.parent.name == TRIALS.name else Path()


def is_trial(place: Path) -> bool:
    """Say whether a project at a place is a smoke run."""
    return place.parent == TRIALS
