"""Copies of the repository with tiny budgets, and how commands are run in them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
TINY = {
    "recipes.base.images": 2560,
    "recipes.mixed.images": 1280,
    "recipes.slot.images": 1280,
    "recipes.expert.images": 1280,
    "recipes.stratified.images": 1280,
    "further_recipes": ["stratified"],
    "profiled_models": ["base", "stratified", "slot_3"],
    "variants": ["base", "stratified", "experts_unpruned", "experts_pruned"],
    "profile.images": 2,
    "slots.finetune": [3],
    "groups.ids": [0, 1],
    "extractor.images": 6400,
    "sampling.steps": 5,
    "evaluation.samples": 100,
    "evaluation.seeds": [0],
    "evaluation.kid_subset": 50,
}


def run(project: Path, *command: str, ok: bool = True, environment: dict[str, str] | None = None) -> str:
    """Run a command of the environment in a project; its output, both streams together."""
    done = subprocess.run(
        command,
        cwd=project,
        env=environment_of(project) | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == ok, done.stdout[-6000:]
    return done.stdout


def environment_of(project: Path) -> dict[str, str]:
    """The environment of commands in a project: its own code, our interpreter, nobody's configuration of git."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return os.environ | git | {"PATH": path, "PYTHONPATH": str(project)}


def edit(project: Path, changes: Mapping[str, object], file: str = "params.yaml") -> None:
    """Set dotted keys of a YAML file."""
    path = project / file
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for dotted, value in changes.items():
        *sections, last = dotted.split(".")
        section = document
        for name in sections:
            section = section[name]
        section[last] = value
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def commit(project: Path, message: str) -> None:
    """Commit all files."""
    run(project, "git", "add", "-A")
    run(project, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", message)


def tiny_copy(target: Path, changes: Mapping[str, object]) -> Path:
    """A copy whose whole pipeline runs in a minute, with these changes of its settings."""
    project = copy_of_repository(target)
    recipes = yaml.safe_load((project / "params.yaml").read_text(encoding="utf-8"))["recipes"]
    used = {name: recipe for name, recipe in recipes.items() if name != "longer"}
    edit(project, {"recipes": used, **TINY, **changes})
    return project


def copy_of_repository(target: Path) -> Path:
    """The tracked files as they are now, in a repository of their own, without the committed results."""
    tracked = run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").split()
    for name in tracked:
        if "results" not in Path(name).parts and Path(name).name != "dvc.lock" and (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target / name)
    run(target, "git", "init", "-q")
    return target
