"""An empty project folder in which a stage program runs, and nobody listens to what it logs."""

from pathlib import Path
from typing import Any

import pytest


class Silence:
    """Takes the tracker's place."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("unequal.pipeline.stage.Tracker", Silence)
    return tmp_path
