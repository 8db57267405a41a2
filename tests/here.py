"""A workspace in a temporary folder."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unequal.settings.training import Runtime


@dataclass
class Here:
    """A workspace for trainings that stores figures in memory."""

    root: Path
    runtime: Runtime
    leads: bool = True
    figures: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    pictures: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def work(self) -> Path:
        folder = self.root / "work"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def log(self, metrics: Mapping[str, float], step: int) -> None: ...

    def input(self, path: str) -> Path:
        return self.root / path

    def picture(self, name: str, image: np.ndarray, step: int) -> None:
        self.pictures[step] = image

    def output(self, path: str) -> Path:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        return self.root / path

    def metrics(self, path: str, content: Mapping[str, Any]) -> None:
        self.figures[path] = json.loads(json.dumps(content, allow_nan=False))
