"""A project folder for tests of stage programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import yaml

RUNTIME: dict[str, Any] = {
    "device": "cpu",
    "compile": False,
    "channels_last": False,
    "progress": False,
    "tracking": {"uri": None, "experiment": "tests", "artifact_limit_mb": 1.0, "timeout_s": 5.0},
}


def write_params(**sections: Any) -> None:
    """A params.yaml with these sections, and the one that the harness reads for every stage."""
    Path("params.yaml").write_text(yaml.safe_dump({**sections, "runtime": RUNTIME}))


class Recorder:
    """A tracker that records its calls."""

    calls: ClassVar[list[tuple[str, Any]]] = []

    def __init__(self, *_: Any, active: bool) -> None:
        self.active = active

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **named: Recorder.calls.append((f"{'parent ' if named else ''}{name}", args[0]))
