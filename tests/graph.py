"""What the graph's tests share: the resolved stages of dvc.yaml and of the studies' own."""

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
    """A stage instance as the dvc.yaml of a folder resolves it; code is named from the project's root."""

    folder: Path
    name: str
    program: str
    options: dict[str, str]
    deps: frozenset[str]
    params: frozenset[str]
    outs: frozenset[str]

    @property
    def id(self) -> str:
        return str(self.folder / self.name)

    @property
    def source(self) -> Path:
        return Path("stages") / f"{self.program}.py"

    @property
    def command(self) -> StageCommand:
        return importlib.import_module(f"stages.{self.program}").main


@cache
def instances() -> list[Instance]:
    return [instance_of(stage) for stage in sorted(Repo(str(ROOT)).index.stages, key=lambda s: s.addressing)]


def telling_instances() -> list[Instance]:
    """The first and the last instance of every stage: what lies between differs by its options alone."""
    by_stage: dict[tuple[Path, str], list[Instance]] = {}
    for instance in instances():
        by_stage.setdefault((instance.folder, instance.name.split("@")[0]), []).append(instance)
    return [one for found in by_stage.values() for one in ((found[0], found[-1]) if len(found) > 1 else found)]


def instance_of(stage) -> Instance:
    words = shlex.split(stage.cmd)
    assert words[:2] == ["python", "-m"], stage.cmd
    options = {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(3, len(words), 2)}
    folder = Path(stage.wdir).relative_to(ROOT)
    up = "../" * len(folder.parts)
    return Instance(
        folder,
        stage.name,
        words[2].removeprefix("stages."),
        options,
        frozenset(dep.def_path.removeprefix(up) for dep in stage.deps if not hasattr(dep, "params")),
        frozenset(key for dep in stage.deps if hasattr(dep, "params") for key in dep.params),
        frozenset(out.def_path for out in stage.outs),
    )
