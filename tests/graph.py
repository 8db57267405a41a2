"""What the graph's tests share: the resolved stages of dvc.yaml, and what a stage's code imports."""

import ast
import importlib
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dvc.repo import Repo

from unequal.pipeline.stage import StageCommand

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Instance:
    """A stage instance as dvc.yaml resolves it."""

    name: str
    program: str
    options: dict[str, str]
    deps: frozenset[str]
    params: frozenset[str]
    outs: frozenset[str]

    @property
    def source(self) -> Path:
        return Path("stages") / f"{self.program}.py"

    @property
    def command(self) -> StageCommand:
        return importlib.import_module(f"stages.{self.program}").main


@cache
def instances() -> list[Instance]:
    return [instance_of(stage) for stage in sorted(Repo(str(ROOT)).index.stages, key=lambda s: s.addressing)]


def instance_of(stage) -> Instance:
    words = shlex.split(stage.cmd)
    assert words[:2] == ["python", "-m"], stage.cmd
    options = {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(3, len(words), 2)}
    return Instance(
        stage.addressing,
        words[2].removeprefix("stages."),
        options,
        frozenset(dep.def_path for dep in stage.deps if not hasattr(dep, "params")),
        frozenset(key for dep in stage.deps if hasattr(dep, "params") for key in dep.params),
        frozenset(out.def_path for out in stage.outs),
    )


def module_file(name: str) -> Path | None:
    path = Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if (ROOT / candidate).exists():
            return candidate
    return None


def imported_modules(source: Path) -> set[Path]:
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / source).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {file for name in names if name.split(".")[0] in ("unequal", "stages") and (file := module_file(name))}


def import_closure(source: Path) -> set[Path]:
    """The file itself and all project modules that it imports, directly or not; lazy imports count."""
    found, todo = set(), [source]
    while todo:
        file = todo.pop()
        if file not in found:
            found.add(file)
            todo += imported_modules(file)
    return found
