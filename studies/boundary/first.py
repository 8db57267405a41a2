"""Which plan came first in the sweep, and by what it and the joint model are carried out once more."""

from pathlib import Path
from typing import Self

from studies.blocks.confirming import CONTROL, FIRST
from studies.blocks.findings import Found
from studies.blocks.settings import Endpoint
from unequal.files import read_json
from unequal.settings.names import Name
from unequal.settings.plan import Plan
from unequal.settings.strict import Strict, validate


class Named(Strict):
    """An arm and the plan that it was carried out by, with the try that the pilot has chosen."""

    arm: Name
    plan: Plan


class First(Strict):
    """results/first.json: both arms. They are trained again as this says, so that no further arm makes that stale."""

    first: Named
    control: Named

    @property
    def arms(self) -> dict[str, str]:
        """Their names, by place."""
        return {FIRST: self.first.arm, CONTROL: self.control.arm}

    @classmethod
    def load(cls, path: Path) -> Self:
        """From a file. Raises UserError where it is missing or damaged."""
        return validate(cls, read_json(path), path)


def first(found: Found, boundaries: set[str], endpoint: Endpoint) -> str:
    """The arm with a boundary whose endpoint is least, by its geometric mean over blocks."""
    arms = [arm for arm in found.blocks.arms if arm in boundaries]
    return arms[int(found.logarithms(endpoint, arms).mean(1).argmin())]
