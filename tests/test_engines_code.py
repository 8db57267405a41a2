"""Code as both engines see it: what makes stages stale, and that nothing which shapes a result is left out."""

import importlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from dvc.repo import Repo
from graph import ROOT
from tiny_pipeline import IMAGES, TinyPipeline, write_images

from benchmarks.projects import run
from unequal.files import write_json
from unequal.pipeline.fingerprint import fingerprint, programs
from unequal.tools.outputs import content

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

PROGRAMS = programs(ROOT / "dvc.yaml")


@pytest.fixture(scope="module")
def project(tiny_pipeline: TinyPipeline, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pipeline, run by Snakemake and recorded by DVC, to be changed."""
    return tiny_pipeline.copied(tmp_path_factory.mktemp("code") / "project")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_file_of_the_project_that_a_program_opens_counts(tiny_pipeline: TinyPipeline, name: str):
    project, notes = tiny_pipeline.project, list(tiny_pipeline.notes.glob(f"stages.{name}.*"))
    tracked = {
        project / path for path in run(project, "git", "ls-files", ":!results", ":!params.yaml", f":!{IMAGES}").split()
    }
    pipeline = project / "unequal/pipeline"
    # What the harness alone imports belongs to it.
    harness = {project / path for file in pipeline.glob("*.py") for path in fingerprint(file, project)["modules"]}
    opened = {Path(line) for file in notes for line in file.read_text().split("\n")}
    code = fingerprint(project / PROGRAMS[name], project)
    counted = {project / path for kind in ("modules", "texts") for path in code[kind]}
    assert project / PROGRAMS[name] in opened
    assert {str(file) for file in (opened & tracked) - counted - harness if pipeline not in file.parents} == set()


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
        assert name in {"log", "table", "parent_metrics", "parent_artifacts"}
        return lambda *_, **__: None


@contextmanager
def threads(count: int) -> Iterator[None]:
    """As many as Snakemake gives a rule: sums depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_the_harness_a_program_makes_the_same(
    project: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Any
):
    """Its first instance in the graph."""
    monkeypatch.chdir(project)
    command = importlib.import_module(f"stages.{name}").main
    graph = Repo(str(project)).stage.load_all(str(project / "dvc.yaml"))
    stage = next(stage for stage in graph if f" -m stages.{name}" in stage.cmd)
    options = command.make_context(name, shlex.split(stage.cmd)[3:]).params
    settings = command.settings.read(Path("params.yaml"), **options)
    with threads((stage.meta or {}).get("threads", 1)):
        command.function(Stub(runtime, tmp_path), settings, **options)
    made = [file.relative_to("stubbed") for file in Path("stubbed").rglob("*") if file.is_file()]
    assert made
    assert {str(file) for file in made if content(file) != content("stubbed" / file)} == set()
    shutil.rmtree("stubbed")


def stale(project: Path) -> tuple[set[str], set[str]]:
    """Stages that Snakemake would run for what they read, not for what others would make, and those changed for DVC."""
    said = run(project, "snakemake", "--cores", "2", "-n")
    chosen = set(re.findall(r"^rule (\w+):\n(?:    .*\n)*?    reason: Updated input files", said, re.MULTILINE))
    run(project, "python", "-m", "unequal.pipeline.fingerprint")
    return chosen, changed_for_dvc(project)


def changed_for_dvc(project: Path) -> set[str]:
    """Stages of which DVC says that something they read is another."""
    changed = json.loads(run(project, "dvc", "status", "--json", "dvc.yaml"))
    return {re.sub(r"\W", "_", stage) for stage in changed if stage != "code"}


HARMLESS = [
    ("unequal/files.py", "import csv", "# Tables.\nimport csv"),
    ("unequal/diffusion/schedule.py", '"""', '"""Here: '),
    ("unequal/pipeline/tracker.py", "FLUSH_SECONDS = 1.0", "FLUSH_SECONDS = 2.0"),
]
FORMULAS = [("unequal/models/merging.py", "", "EDITED = 1\n"), ("unequal/pruning/units.py", "", "EDITED = 1\n")]


@pytest.mark.parametrize(
    ("edits", "reached"),
    [(HARMLESS, set()), (FORMULAS, {"merge_experts", "prune_0", "prune_1"})],
    ids=["comment, docstring, harness", "formulas"],
)
def test_an_edit_makes_stale_what_it_reaches_in_both_engines(
    project: Path, edits: list[tuple[str, str, str]], reached: set[str]
):
    for file, old, new in edits:
        before = (project / file).read_text(encoding="utf-8")
        assert old in before
        (project / file).write_text(before.replace(old, new, 1), encoding="utf-8")
    try:
        assert stale(project) == (reached, reached)
    finally:
        run(project, "git", "checkout", "--", *(file for file, _, _ in edits))
        as_before(project)


def as_before(project: Path) -> None:
    """The code's files say again what they said, and are no newer than what has been made since."""
    run(project, "python", "-m", "unequal.pipeline.fingerprint")
    run(project, "snakemake", "--cores", "1", "--touch")


def test_another_content_outside_makes_stale_who_reads_it_in_both_engines(project: Path):
    before = (project / IMAGES).read_bytes()
    try:
        write_images(project, seed=1)
        assert (project / IMAGES).read_bytes() != before
        assert stale(project) == ({"prepare_data"}, {"prepare_data"})
        (project / IMAGES).unlink()
        for engine in (("snakemake", "--cores", "2"), ("dvc", "repro")):
            said = run(project, *engine, ok=False)
            assert f"params.yaml: data.path: {IMAGES}: missing; allowed: a file or folder that is there" in said
            assert "Traceback" not in said
    finally:
        (project / IMAGES).write_bytes(before)
        as_before(project)


WITH_DIFFUSERS = {
    *("train_base", "train_recipe", "train_mixed", "finetune_slots", "finetune_groups", "merge_experts"),
    *("profile_loss", "profile_floor", "prune", "evaluate_fid"),
}


@pytest.mark.parametrize(
    ("library", "reached"),
    [("torch", set(PROGRAMS)), ("diffusers", WITH_DIFFUSERS), ("optuna", {"prune"})],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_version_of_a_library_is_noticed(project: Path, tmp_path: Path, library: str, reached: set[str]):
    metadata = tmp_path / f"{library}-99.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {library}\nVersion: 99.1+cpu\n")
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{project}"}
    said = run(project, "python", "-m", "unequal.pipeline.fingerprint", environment=path)
    try:
        assert {Path(line.split(": ")[0]).stem for line in said.splitlines() if library in line} == reached
    finally:
        run(project, "python", "-m", "unequal.pipeline.fingerprint")
