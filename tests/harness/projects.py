"""Copies of the repository with tiny budgets, and how commands are run in them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
#: Settings of a small run by dotted keys: the pipeline's; those of a study stand next to its params.yaml.
TINY = ROOT / "tests/tiny.yaml"
#: Stages of a small copy.
FEW = ("code", "check_params", "prepare_data", "profile_floor")
#: Longest time of a command: what hangs is to say how far it came.
LIMIT_SECONDS = 1000


def run(project: Path, *command: str, ok: bool = True, environment: dict[str, str] | None = None) -> str:
    """Run a command of the environment in a project; its output, both streams together."""
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=environment_of(project) | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired as late:
        said = late.output if isinstance(late.output, str) else (late.output or b"").decode(errors="replace")
        raise AssertionError(f"{' '.join(command)}: no end within {LIMIT_SECONDS} s\n{said[-6000:]}") from None
    assert (done.returncode == 0) == ok, done.stdout[-6000:]
    return done.stdout


def environment_of(project: Path) -> dict[str, str]:
    """The environment of commands in a project: its own code, our interpreter, nobody's configuration of git."""
    path, own = os.environ["PATH"], str(Path(sys.executable).parent)
    if own not in path.split(os.pathsep):  # what stands before it is meant to
        path = f"{own}{os.pathsep}{path}"
    git = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    return os.environ | git | {"PATH": path, "PYTHONPATH": str(project)}


def edit(project: Path, changes: Mapping[str, object], file: str = "params.yaml") -> None:
    """Set dotted keys of a YAML file; a section that an anchor shares is changed in one place alone."""
    path = project / file
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for dotted, value in changes.items():
        section, last = section_of(document, dotted)
        section[last] = value
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def section_of(document: dict[str, Any], dotted: str) -> tuple[dict[str, Any], str]:
    """Return the section that holds a dotted key, as a copy of its own within the document, and the key there."""
    *sections, last = dotted.split(".")
    for name in sections:
        document[name] = document = dict(document[name])
    return document, last


def shrink(params: Path, tiny: Path) -> None:
    """Set the dotted keys of a tiny.yaml in a params file; a key with null is deleted."""
    document = yaml.safe_load(params.read_text(encoding="utf-8"))
    for dotted, value in yaml.safe_load(tiny.read_text(encoding="utf-8")).items():
        section, last = section_of(document, dotted)
        section.pop(last, None)
        section.update({} if value is None else {last: value})
    params.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


def commit(project: Path, message: str) -> None:
    """Commit all files."""
    run(project, "git", "add", "-A")
    run(project, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", message)


def tiny_copy(target: Path, changes: Mapping[str, object], folder: str = ".") -> Path:
    """A copy in which all of a folder's graph runs in a minute or two, with these changes of its settings."""
    project = copy_of_repository(target)
    shrink(project / folder / "params.yaml", tiny_settings(project / folder))
    edit(project, changes, f"{folder}/params.yaml")
    return project


def small_copy(target: Path) -> Path:
    """A tiny copy with the first few stages alone, in a repository of its own with all files committed."""
    project = tiny_copy(target, {})
    keep_stages(project, FEW)
    commit(project, "small")
    return project


def tiny_settings(folder: Path) -> Path:
    """The file of small settings for the params.yaml in a folder."""
    own = folder / "tiny.yaml"
    return own if own.exists() else TINY


def keep_stages(project: Path, names: Sequence[str]) -> None:
    """Leave these stages alone in a project's graph."""
    graph = yaml.safe_load((project / "dvc.yaml").read_text(encoding="utf-8"))
    stages = {name: graph["stages"][name] for name in names}
    (project / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}, sort_keys=False), encoding="utf-8")


def copy_of_repository(target: Path) -> Path:
    """The tracked files as they are now, in a repository of their own, without the committed results."""
    tracked = run(ROOT, "git", "ls-files", "--cached", "--others", "--exclude-standard").split()
    for name in tracked:
        if "results" not in Path(name).parts and Path(name).name != "dvc.lock" and (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
            # Modules that have been compiled need not be compiled again.
            for compiled in (ROOT / name).parent.glob(f"__pycache__/{Path(name).stem}.*.pyc"):
                (target / name).with_name("__pycache__").mkdir(exist_ok=True)
                with suppress(FileNotFoundError):  # another process may be compiling it anew
                    shutil.copy2(compiled, (target / name).with_name("__pycache__"))
    shutil.copy(ROOT / "presets/digits.yaml", target / "params.yaml")  # the clone's may have been edited
    run(target, "git", "init", "-q")
    return target
