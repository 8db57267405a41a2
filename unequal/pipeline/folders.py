"""Folders of own runs: the files that `unequal init` puts there, and the package's graph cut to the models asked for.

A folder's dvc.yaml holds the stages that a model in `scored_models` or `profiled_models` needs. It is brought up to
date whenever an engine starts, as long as its first line stands.
"""

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from unequal.pipeline.commit import git
from unequal.runtime.files import write_bytes
from unequal.runtime.place import ROOT
from unequal.settings.strict import PARAMS, look_up, read_yaml

GRAPH = Path("dvc.yaml")
#: First line of a graph that is brought up to date.
MADE = "# Made from the package's graph for the models in params.yaml. Delete this line before you edit the graph."
DVC_CONFIG = "[core]\n    analytics = false\n    autostage = false\n"
DVC_IGNORED = "__pycache__\n.snakemake_timestamp\n.snakemake\nlogs\nwork\ntries\nmlartifacts\n"
GIT_IGNORED = """\
.dvc/config.local
.dvc/tmp
.dvc/cache
.snakemake
artifacts
dvc_plots
logs
mlartifacts
mlflow.db*
results
samples
tries
work
"""
#: A variable of a matrix in a path, and a key of params.yaml in a matrix.
ITEM, KEY = re.compile(r"\$\{item\.\w+\}"), re.compile(r"\$\{([\w.]+)\}")


def shipped(name: str) -> str:
    """Find a file or folder of the project: at the root of a clone, or inside an installed package."""
    inside = Path(__file__).parents[1] / "shipped" / name
    return str(inside if inside.exists() else ROOT / name)


def make_folder(folder: Path, params: str, own_graph: bool = False) -> None:
    """Make a folder in which both engines run: settings, graph, rules, profiles, a DVC project of its own.

    Args:
        folder: the folder, new or made before; results in it stay.
        params: text of its params.yaml.
        own_graph: write a graph that is not brought up to date.

    Raises:
        UserError: the settings name no models.
    """
    no_scm = "" if folder_in_git(folder) else "    no_scm = true\n"
    write_bytes(folder / PARAMS, params.encode())
    text = graph_text(read_yaml(folder / PARAMS))
    write_bytes(folder / GRAPH, (text.removeprefix(f"{MADE}\n") if own_graph else text).encode())
    write_bytes(folder / "Snakefile", Path(shipped("Snakefile")).read_bytes())
    write_bytes(folder / ".dvc/config", f"{DVC_CONFIG}{no_scm}".encode())
    write_bytes(folder / ".dvcignore", DVC_IGNORED.encode())
    if not (folder / ".gitignore").exists():  # a clone of this project does not list the folder as a change
        write_bytes(folder / ".gitignore", b"*\n" if is_in_clone(folder) else GIT_IGNORED.encode())
    if not (folder / "profiles").exists():
        shutil.copytree(shipped("profiles"), folder / "profiles")


def is_in_clone(folder: Path) -> bool:
    """Say whether a folder lies in the project's own clone."""
    return folder.resolve().is_relative_to(ROOT) and (ROOT / "dvc.yaml").exists()


def folder_in_git(folder: Path) -> bool:
    """Say whether a folder lies in a git repository of its user, which DVC then takes part in."""
    place = next(one for one in folder.resolve().parents if one.exists())
    return not is_in_clone(folder) and git("-C", str(place), "rev-parse", "--show-toplevel") is not None


def update_graph(folder: Path = Path()) -> bool:
    """Bring a folder's graph up to date with the package's and with params.yaml; return whether it has changed.

    A graph without the first line stays. Raises UserError where params.yaml cannot be read.
    """
    graph = folder / GRAPH
    before = graph.read_text(encoding="utf-8") if graph.exists() else ""
    if not before.startswith(MADE) or (text := graph_text(read_yaml(folder / PARAMS))) == before:
        return False
    write_bytes(graph, text.encode())
    return True


def graph_text(params: dict[str, Any]) -> str:
    """Write the package's graph for the models in a params file."""
    document = cut(read_yaml(Path(shipped("dvc.yaml"))), params)
    plain = yaml.safe_load(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))  # without tuples
    return f"{MADE}\n{yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)}"


def needed(graph: dict[str, Any], params: dict[str, Any]) -> dict[str, list[Any]]:
    """Map the stages that the models asked for need to the needed values of their matrices; [None] without a matrix.

    In dvc.yaml `meta: {optional: true}` marks stages that are there only if another one needs them, and
    `collects: true` a stage that reads what is there.
    """
    stages: dict[str, Any] = graph["stages"]
    meta = {name: stage.get("meta") or {} for name, stage in stages.items()}
    instances = [(name, value) for name in stages for value in values_of(stages[name], params)]
    outs = {(name, value): set(paths(stages[name], "outs", value)) for name, value in instances}
    kept = {one for one in instances if not meta[one[0]].get("optional")}
    new = {one for one in kept if not meta[one[0]].get("collects")}
    while new:
        read = {dep for name, value in new for dep in paths(stages[name], "deps", value)}
        new = {one for one in outs.keys() - kept if any(overlap(out, dep) for out in outs[one] for dep in read)}
        kept |= new
    names = dict.fromkeys(name for name, _ in instances if any(name == other for other, _ in kept))
    return {name: [value for other, value in instances if other == name and (name, value) in kept] for name in names}


def cut(graph: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Leave out the instances of stages that no model asked for needs, and dependencies on them."""
    stages, kept = graph["stages"], needed(graph, params)

    def made(values: Mapping[str, list[Any]]) -> set[str]:
        return {out for name in values for value in values[name] for out in paths(stages[name], "outs", value)}

    every = {name: values_of(stage, params) for name, stage in stages.items()}
    left = made(every) - made(kept)

    def is_gone(dep: str, values: list[Any]) -> bool:
        filled = [ITEM.sub(str(value), dep) for value in values]
        in_left, in_kept = (any(overlap(one, out) for one in filled for out in outs) for outs in (left, made(kept)))
        return in_left and not in_kept

    result = {}
    for name, values in kept.items():
        stage = stages[name]
        deps = [dep for dep in stage.get("deps", []) if not is_gone(dep, values)]
        matrix = {"matrix": {next(iter(stage["matrix"])): values}} if values != every[name] else {}
        result[name] = stage | ({"deps": deps} if deps else {}) | matrix
    return graph | {"stages": result}


def values_of(stage: Mapping[str, Any], params: dict[str, Any]) -> list[Any]:
    """List the values of a stage's matrix; a stage without one has the value None alone."""
    if "matrix" not in stage:
        return [None]
    (key,) = stage["matrix"].values()
    return list(look_up(params, KEY.fullmatch(key)[1], PARAMS)) if isinstance(key, str) else key  # type: ignore[index]


def paths(stage: Mapping[str, Any], kind: str, value: Any) -> Iterator[str]:
    """Yield the paths of a stage's dependencies or outputs for a value of its matrix."""
    for entry in stage.get(kind, []):
        yield ITEM.sub(str(value), entry if isinstance(entry, str) else next(iter(entry)))


def overlap(one: str, other: str) -> bool:
    """Say whether two paths are equal, or one lies in the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
