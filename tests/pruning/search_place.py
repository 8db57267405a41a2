"""Where tests search for schemes: a folder, and what was logged."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unequal.pruning.anatomy import Anatomy, Unit, units_by
from unequal.pruning.bank import Bank
from unequal.settings.training import Runtime


@dataclass
class Here:
    """A place for a search, in a folder."""

    work: Path
    runtime: Runtime
    logged: list[dict[str, float]] = field(default_factory=list)

    def input(self, path: str | Path) -> Path:
        return Path(path)

    def log(self, metrics: Any, step: int) -> None:
        self.logged.append({"step": step, **metrics})

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [one.model_dump() for one in Bank(self.work).candidates]


def all_units(anatomy: Anatomy) -> list[Unit]:
    """Units in the order of their channels."""
    return units_by(lambda group: torch.arange(len(group[0].idxs), dtype=torch.float32), anatomy)
