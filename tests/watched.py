"""Definitions that programs call, and outputs that they make with a stub in place of the harness."""

import csv
import importlib
import json
import os
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from dvc.repo import Repo

from unequal.pipeline.definitions import FORMULAS, Canonical, Project
from unequal.pipeline.fingerprint import DEFINITIONS, KEYS, code_of
from unequal.runtime.files import content_hash, write_json
from unequal.runtime.place import ROOT
from unequal.runtime.processes import threads
from unequal.settings.training import Runtime


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


@contextmanager
def calls_noted(root: Path) -> Iterator[set[tuple[str, str]]]:
    """Note (module below `unequal`, definition) of all code of the project that is called in the block."""
    codes, here = set[CodeType](), str(root / "unequal")

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    calls = set[tuple[str, str]]()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        for code in codes:
            name = code.co_qualname.partition(".<locals>")[0]
            if code.co_filename.startswith(here) and "<" not in name:
                calls.add((os.path.relpath(code.co_filename, here), name))


def run_without_the_harness(place: Path, program: Path, work: Path, runtime: Runtime) -> tuple[set[str], set[str]]:
    """Run a program's first instance in a finished graph with a stub for the harness.

    Returns outputs that differ, and definitions that count, that it has called and its code file lacks.
    """
    module = ".".join(program.with_suffix("").parts)
    command = importlib.import_module(module).main
    graph = Repo(str(place)).stage.load_all(str(place / "dvc.yaml"))
    stage = next(stage for stage in graph if f" -m {module}" in stage.cmd)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        words = shlex.split(stage.cmd.partition(f" -m {module}")[2])
        options = command.make_context(program.stem, words).params
        settings = command.settings.read(Path("params.yaml"), **options)
        with threads(runtime.threads), calls_noted(ROOT) as called:
            command.function(Stub(runtime, work), settings, **options)
        made = [file.relative_to("stubbed") for file in Path("stubbed").rglob("*") if file.is_file()]
        assert made
        other = {str(file) for file in made if content(file) != content("stubbed" / file)}
        shutil.rmtree("stubbed")
        code = json.loads(Path(str(code_of(stage))).read_text())
    counted = {name for file, name in called if file in FORMULAS or file.split(os.sep)[0] in FORMULAS}
    return other, counted - code[DEFINITIONS].keys() - only_judging(program, code)


def only_judging(program: Path, code: dict[str, Any]) -> set[str]:
    """Definitions that a program reaches by what does not count: guards that only raise, and words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Canonical, "visit_If", Canonical.filled)
        for name in ("visit_Expr", "visit_Call", "visit_Raise"):
            patch.setattr(Canonical, name, Canonical.generic_visit)
        return Project().fingerprint(ROOT / program, code[KEYS]).keys() - code[DEFINITIONS].keys()


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
