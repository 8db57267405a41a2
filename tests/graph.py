"""What the graph's tests share: the resolved stages of dvc.yaml and of the studies' own."""

import importlib
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dvc.dvcfile import Lockfile
from dvc.repo import Repo

from unequal.pipeline.params_files import params_models
from unequal.pipeline.stage import StageCommand
from unequal.settings.params.core import Core
from unequal.settings.params.pipeline import Params

ROOT = Path(__file__).parents[1]


def model_of(file: Path) -> type[Core]:
    """What checks a params file, also a preset: its first line names the schema, which lies in the graph's folder."""
    first = file.read_text(encoding="utf-8").splitlines()[0]
    return params_models(ROOT)[(file.parent / first.partition("$schema=")[2]).resolve().parent]


def pipeline_presets() -> list[Path]:
    """Presets of the pipeline; others belong to a study."""
    return [preset for preset in sorted((ROOT / "presets").glob("*.yaml")) if model_of(preset) is Params]


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
        return Path(*self.program.split(".")).with_suffix(".py")

    @property
    def command(self) -> StageCommand:
        return importlib.import_module(self.program).main


@cache
def instances() -> list[Instance]:
    # Records of earlier runs are several times as long as the graph, and nothing of them is asked for.
    with patch.object(Lockfile, "load", return_value={}):
        stages = Repo(str(ROOT)).index.stages
    programs = [stage for stage in stages if stage.name != "code"]
    return [instance_of(stage) for stage in sorted(programs, key=lambda stage: stage.addressing)]


def telling_instances() -> list[Instance]:
    """The first and the last instance of every stage: what lies between differs by its options alone."""
    by_stage: dict[tuple[Path, str], list[Instance]] = {}
    for instance in instances():
        by_stage.setdefault((instance.folder, instance.name.split("@")[0]), []).append(instance)
    return [one for found in by_stage.values() for one in ((found[0], found[-1]) if len(found) > 1 else found)]


def instance_of(stage) -> Instance:
    words = shlex.split(stage.cmd)
    module, *words = words[words.index("-m") + 1 :]
    options = {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(0, len(words), 2)}
    folder = Path(stage.wdir).relative_to(ROOT)
    return Instance(
        folder,
        stage.name,
        module,
        options,
        frozenset(dep.def_path for dep in stage.deps if not hasattr(dep, "params")),
        frozenset(key for dep in stage.deps if hasattr(dep, "params") for key in dep.params),
        frozenset(out.def_path for out in stage.outs),
    )
