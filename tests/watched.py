"""Files that programs open, and outputs that they make with a stub in place of the harness."""

import csv
import importlib
import json
import os
import re
import shlex
import shutil
from functools import cache
from hashlib import file_digest
from pathlib import Path
from typing import Any

import pytest
import torch
from dvc.repo import Repo
from harness.projects import run

from unequal.code import HARNESS, Tree
from unequal.runtime.files import content_hash, write_json
from unequal.runtime.processes import threads
from unequal.settings.training import Runtime

#: Read by every Python that finds its folder on its path: notes what a program opens, modules by their source.
HOOK = """
import importlib.util, os, sys

if "-m" in sys.orig_argv and "NOTES" in os.environ:
    program = sys.orig_argv[sys.orig_argv.index("-m") + 1]
    notes = os.open(f"{os.environ['NOTES']}/{program}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event, arguments):
        if event == "open" and isinstance(arguments[0], str):
            path = os.path.abspath(arguments[0])
            if path.endswith(".pyc") and "__pycache__" in path:
                path = importlib.util.source_from_cache(path)
            os.write(notes, f"{path}\\n".encode())

    sys.addaudithook(note)
"""


def noting(notes: Path, project: Path) -> dict[str, str]:
    """The environment in which a project's programs note what they open, in a folder of notes, which is made."""
    notes.mkdir(parents=True)
    (notes / "sitecustomize.py").write_text(HOOK)
    return {"NOTES": str(notes), "PYTHONPATH": f"{notes}{os.pathsep}{project}"}


@cache
def tree_of(project: Path) -> Tree:
    """The code of a project that nobody edits: all programs share what was read."""
    return Tree(project)


@cache
def tracked_of(project: Path, *given: str) -> frozenset[Path]:
    """Files in git that may count: no settings, no results, nothing that is given from outside."""
    excluded = (":!*params.yaml", ":!results", *(f":!{pattern}" for pattern in given))
    return frozenset(project / path for path in run(project, "git", "ls-files", *excluded).split())


@cache
def harness_of(project: Path) -> frozenset[Path]:
    """Modules of the harness; what it alone imports belongs to it."""
    own = [project.joinpath(*name.split(".")) for name in HARNESS]
    modules = {file for place in own for file in (*place.glob("*.py"), place.with_suffix(".py")) if file.is_file()}
    imported = {path for file in modules for path in tree_of(project).fingerprint(file)["modules"]}
    return frozenset(modules | {project / path for path in imported})


def uncounted(project: Path, notes: Path, program: Path, *given: str) -> set[str]:
    """Tracked files that a program has opened and that are neither in its fingerprint nor the harness's own."""
    files = list(notes.glob(f"{'.'.join(program.with_suffix('').parts)}.*"))
    opened = {Path(line) for file in files for line in file.read_text().split("\n")}
    assert project / program in opened
    code = tree_of(project).fingerprint(project / program)
    counted = {project / path for kind in ("modules", "texts") for path in code[kind]}
    return {str(file) for file in (opened & tracked_of(project, *given)) - counted - harness_of(project)}


class Stub:
    """Takes the harness's place: files where they are asked for, nothing logged, locked or resumed."""

    leads = True
    device = torch.device("cpu")

    def __init__(self, runtime: Any, work: Path) -> None:
        self.runtime, self.work = runtime, work

    def input(self, path: str | Path) -> Path:
        return Path(path)

    def source(self, name: str) -> None: ...

    def output(self, path: str | Path) -> Path:
        made = Path("stubbed") / path
        made.parent.mkdir(parents=True, exist_ok=True)
        return made

    def metrics(self, path: str | Path, content: Any, headline: Any = None) -> None:
        write_json(self.output(path), content)

    def __getattr__(self, name: str) -> Any:
        assert name in {"log", "picture", "register", "table", "parent_metrics", "parent_artifacts"}
        return lambda *_, **__: None


def other_without_the_harness(place: Path, program: Path, work: Path, runtime: Runtime) -> set[str]:
    """Return outputs that differ with a stub for the harness: of the program's first instance in a finished graph."""
    module = ".".join(program.with_suffix("").parts)
    command = importlib.import_module(module).main
    graph = Repo(str(place)).stage.load_all(str(place / "dvc.yaml"))
    stage = next(stage for stage in graph if f" -m {module}" in stage.cmd)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        words = shlex.split(stage.cmd.partition(f" -m {module}")[2])
        options = command.make_context(program.stem, words).params
        settings = command.settings.read(Path("params.yaml"), **options)
        with threads(runtime.threads):
            command.function(Stub(runtime, work), settings, **options)
        made = [file.relative_to("stubbed") for file in Path("stubbed").rglob("*") if file.is_file()]
        assert made
        other = {str(file) for file in made if content(file) != content("stubbed" / file)}
        shutil.rmtree("stubbed")
    return other


#: Fields of JSON and CSV files that differ from run to run: seconds and speeds.
UNCOMPARED = re.compile(r"(\w+_)?seconds|images_per_second|mfu")


def content(file: Path) -> Any:
    """Return a file's content without seconds, speeds and the order of tensors' metadata."""
    text = file.read_text(encoding="utf-8") if file.suffix in {".json", ".jsonl", ".csv"} else ""
    match file.suffix:
        case ".safetensors":
            with file.open("rb") as opened:
                head = json.loads(opened.read(int.from_bytes(opened.read(8), "little")))
                return head, file_digest(opened, "sha256").hexdigest()
        case ".json":
            return compared(json.loads(text))
        case ".jsonl":
            return compared([json.loads(line) for line in text.splitlines()])
        case ".csv":
            return compared(list(csv.DictReader(text.splitlines())))
        case _:
            return content_hash(file)


def compared(value: Any) -> Any:
    """A JSON value without what differs from run to run."""
    if isinstance(value, dict):
        return {k: compared(v) for k, v in value.items() if not UNCOMPARED.fullmatch(k)}
    return [compared(item) for item in value] if isinstance(value, list) else value
