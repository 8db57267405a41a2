"""The log of a training: means of named terms over intervals of steps, a line of JSON each."""

import json
import time
from pathlib import Path

from torch import Tensor

from unequal.files import write_bytes

LOG = "training.jsonl"


class LogInterval:
    """Sums of named terms since the last line of the log, kept on the device.

    `steps` and `sums` are those of an earlier process, whose time counts for no speed.
    """

    def __init__(self, steps: int = 0, sums: dict[str, Tensor] | None = None) -> None:
        self.steps = self.earlier_steps = steps
        self.sums = sums or {}
        self.start = time.perf_counter()

    def add(self, terms: dict[str, Tensor]) -> None:
        """Take in one step."""
        self.steps += 1
        self.sums = {name: value + self.sums[name].to(value) if self.sums else value for name, value in terms.items()}

    def means(self) -> dict[str, Tensor]:
        """Mean of each term, still on the device."""
        return {name: value / self.steps for name, value in self.sums.items()}

    def speed(self) -> float:
        """Steps a second of this process."""
        return (self.steps - self.earlier_steps) / (time.perf_counter() - self.start)


def drop_lines_after(log: Path, step: int) -> None:
    """Cut a log back to a step, so that a resumed run writes no line twice; damaged lines are dropped too."""
    if log.exists():
        kept = [
            line for line in log.read_bytes().split(b"\n") if (found := step_of(line)) is not None and found <= step
        ]
        write_bytes(log, b"".join(line + b"\n" for line in kept))


def step_of(line: bytes) -> int | None:
    """The step of a line of the log; None where a kill or a power cut has left something else in its place."""
    try:
        found = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, int) else None
