"""Refusals of bad input: one line, status 1, and every file unchanged."""

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import click
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parents[1]
#: Content of an output before a refused stage, and after it.
EARLIER = "of an earlier run"


def without_code(*_: object, **__: object) -> None:
    """Stands for `started_with`, most of the time of a refused stage."""


class Stage(Protocol):
    """The module of a stage program."""

    __name__: str
    main: click.Command


class Bad(NamedTuple):
    """A way to spoil an input, and what the line about it must say."""

    spoil: Callable[[], object]
    said: str


class Ended(NamedTuple):
    """The end of a stage: its status and its lines on stderr."""

    status: int
    said: str


def table(bad: dict[str, Bad]) -> pytest.MarkDecorator:
    """The test for each row of a table of bad inputs."""
    return pytest.mark.parametrize("bad", bad.values(), ids=bad)


def in_process(stage: Stage, *options: str) -> Ended:
    """Run a stage within this process; what is no refusal is raised as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unequal.pipeline.stage.started_with", without_code)
        result = CliRunner().invoke(stage.main, options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stderr)


def as_process(stage: Stage, *options: str) -> Ended:
    """Run a stage as its user does; with the fixture `warm_start` it need import nothing."""
    ended = subprocess.run(
        ["python", "-m", stage.__name__, *options],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Ended(ended.returncode, ended.stderr)


def check_refused(
    stage: Stage,
    *options: str,
    said: str,
    outputs: Sequence[str] = (),
    run: Callable[..., Ended] = in_process,
    several: bool = False,
    notes: str | None = None,
) -> None:
    """Run a stage in the working directory and see that it is refused in one line and leaves nothing behind.

    With `notes`, lines that begin so may come before.
    """
    for output in map(Path, outputs):
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(EARLIER)
    before = standing()
    ended = run(stage, *options)
    assert ended.status == 1, ended.said
    *lines, end = ended.said.split("\n")
    assert end == "" and all(line.isprintable() for line in lines), ended.said
    while notes is not None and lines and lines[0].startswith(notes):
        del lines[0]
    assert all(line.startswith(f"{stage.__name__.rpartition('.')[2]}: ") for line in lines), lines
    assert said in ended.said if several else len(lines) == 1 and said in lines[0], lines
    assert standing() == before, "files have changed"
    assert half_written() == []


def standing() -> dict[str, bytes]:
    """Every file by its content, a link by where it leads; resumable states, notes of sources and tracking are none."""
    return {
        str(path): os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        for path in Path().rglob("*")
        if not path.is_relative_to("work") and not path.is_relative_to("artifacts/sources")
        if not path.name.startswith("mlflow.db") and (path.is_symlink() or path.is_file())
    }


def half_written() -> list[Path]:
    """Files among the resumable states that are no state: outputs that were begun, and what was not yet moved."""
    return [
        path
        for path in Path("work").rglob("*")
        if path.is_file() and ("outputs" in path.parts or path.name.endswith(".new"))
    ]


def cut(path: Path, kept: int) -> Callable[[], object]:
    """A call that leaves the first bytes of a file."""
    return lambda: path.write_bytes(path.read_bytes()[:kept])
