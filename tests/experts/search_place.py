"""Where tests search for schemes: a folder, and what was logged; methods of pruning."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from unequal.experts.anatomy import Anatomy, Unit, units_by
from unequal.experts.bank import Bank
from unequal.settings.pruning import DiffPruning, Importance, Magnitude, Random, Taylor
from unequal.settings.training import Runtime

RANDOM, MAGNITUDE = Random(method="random"), Magnitude(method="magnitude")
TAYLOR = Taylor(method="taylor", timesteps="group", images=8)
DIFF_PRUNING = DiffPruning(method="diff_pruning", timesteps="group", images=2, threshold=0.05)
#: Methods that rank channels.
METHODS: list[Importance] = [RANDOM, MAGNITUDE, TAYLOR, DIFF_PRUNING]
#: A search of two rounds.
SEARCH: dict[str, Any] = {"method": "proxy", "ranking": MAGNITUDE, "decider": {"kind": "tpe"}, "start": ()}
SEARCH |= {"rounds": 2, "candidates": 2, "images": 8, "finetuning": None}


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
