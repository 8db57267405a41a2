"""The resolved stages of all dvc.yaml files, for tests of graphs."""

import importlib
import shlex
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

from dvc.dvcfile import Lockfile
from dvc.repo import Repo

from unequal.experiments.declaration import Declared
from unequal.experiments.graph import lay
from unequal.pipeline.gate import Gate
from unequal.pipeline.running import make_project
from unequal.pipeline.stage import StageCommand
from unequal.settings.core import Core
from unequal.settings.params import Params
from unequal.settings.strict import read_yaml

ROOT = Path(__file__).parents[1]


#: Folders with settings and a graph: the pipeline's, an experiment with variants of every kind, and that of latents.
FOLDERS = [Path(), Path("tests/experiments/tiny"), Path("studies/latent")]


@cache
def laid(folder: Path) -> Path:
    """A copy of a folder's settings and of its graph, which is laid if there is none; of the root, the digits' preset.

    The root's params.yaml may have been edited by its user.
    """
    copy = Path(mkdtemp(prefix="graph-")) / (folder.name or "root")
    copy.mkdir()
    settings = "presets/digits.yaml" if folder == Path() else folder / "params.yaml"
    shutil.copy(ROOT / settings, copy / "params.yaml")
    if (ROOT / folder / "dvc.yaml").exists():
        shutil.copy(ROOT / folder / "dvc.yaml", copy)
    place = copy if (copy / "dvc.yaml").exists() else lay(copy, Declared.read(copy / "params.yaml"))
    make_project(place)
    return place


@cache
def gate_of(folder: Path) -> Gate:
    """The gate of a folder's graph."""
    words = read_yaml(laid(folder) / "dvc.yaml")["stages"]["check_params"]["cmd"].split()
    gate: Gate = importlib.import_module(words[words.index("-m") + 1]).main
    return gate


def model_of(folder: Path) -> type[Core]:
    """Return the class that checks the params file of a folder."""
    return gate_of(folder).model


def model_of_file(file: Path) -> type[Core]:
    """Return the class that checks a params file or preset, by its sections."""
    document = read_yaml(file)
    kind = {"autoencoder": Path("studies/latent"), "experiment": Path("tests/experiments/tiny")}
    return model_of(next((folder for section, folder in kind.items() if section in document), Path()))


def pipeline_presets() -> list[Path]:
    """Presets of the pipeline; others belong to a study."""
    return [preset for preset in sorted((ROOT / "presets").glob("*.yaml")) if model_of_file(preset) is Params]


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
    def source(self) -> Path:
        return Path(*self.program.split(".")).with_suffix(".py")

    @property
    def command(self) -> StageCommand:
        return importlib.import_module(self.program).main


@cache
def instances(folder: Path) -> list[Instance]:
    """All stage instances of a folder's graph but `code`."""
    # Records of earlier runs are several times as long as the graph, and nothing of them is asked for.
    with patch.object(Lockfile, "load", return_value={}):
        stages = Repo(str(laid(folder))).stage.load_all(str(laid(folder) / "dvc.yaml"))
    programs = [stage for stage in stages if stage.name != "code"]
    return [instance_of(folder, stage) for stage in sorted(programs, key=lambda stage: stage.addressing)]


def telling_instances(folder: Path) -> list[Instance]:
    """The first and the last instance of every stage: what lies between differs by its options alone."""
    by_stage: dict[str, list[Instance]] = {}
    for instance in instances(folder):
        by_stage.setdefault(instance.name.split("@")[0], []).append(instance)
    return [one for found in by_stage.values() for one in {found[0].name: found[0], found[-1].name: found[-1]}.values()]


def instance_of(folder: Path, stage) -> Instance:
    words = shlex.split(stage.cmd)
    module, *words = words[words.index("-m") + 1 :]
    options = {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(0, len(words), 2)}
    return Instance(
        folder,
        stage.name,
        module,
        options,
        frozenset(dep.def_path for dep in stage.deps if not hasattr(dep, "params")),
        frozenset(key for dep in stage.deps if hasattr(dep, "params") for key in dep.params),
        frozenset(out.def_path for out in stage.outs),
    )
