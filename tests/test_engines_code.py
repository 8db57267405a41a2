"""Code as both engines see it: what makes stages stale, and that nothing which shapes a result is left out."""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from engines_said import rules_of_dry_run
from sklearn.datasets import load_digits

from benchmarks.projects import FEW, commit, edit, run, small_copy
from unequal.files import content_hash, write_json
from unequal.pipeline.fingerprint import CODE, fingerprint, programs

pytestmark = pytest.mark.slow

STAGES = {"check_params", "prepare_data", "build_extractor", "profile_floor"}
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


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where programs note what they open."""
    folder = tmp_path_factory.mktemp("notes")
    (folder / "sitecustomize.py").write_text(HOOK)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, notes: Path) -> Path:
    """A small project, run by Snakemake with notes of what is opened, and recorded."""
    project = small_copy(tmp_path_factory.mktemp("code"))
    write_images(project)
    edit(project, {"data.source": "array", "data.path": "images.npz"})
    noting = {"NOTES": str(notes), "PYTHONPATH": f"{notes}{os.pathsep}{project}"}
    run(project, "snakemake", "--cores", "2", environment=noting)
    run(project, "python", "-m", "unequal.tools.record")
    commit(project, "recorded")
    return project


def write_images(project: Path, seed: int = 0) -> None:
    """scikit-learn's digits as a file of the user's, in an order."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.images))
    pixels = (digits.images[order] * 15).astype(np.uint8)
    np.savez(project / "images.npz", images=pixels[:, None], labels=digits.target[order])


def test_every_file_of_the_project_that_a_program_opens_counts(project: Path, notes: Path):
    tracked = {project / name for name in run(project, "git", "ls-files", ":!results", ":!params.yaml").split()}
    pipeline = project / "unequal/pipeline"
    # What the harness alone imports belongs to it.
    harness = {project / name for file in pipeline.glob("*.py") for name in fingerprint(file, project)["modules"]}
    for name, program in programs(project / "dvc.yaml").items():
        opened = {Path(line) for file in notes.glob(f"stages.{name}.*") for line in file.read_text().split("\n")}
        code = fingerprint(project / program, project)
        counted = {project / path for kind in ("modules", "texts") for path in code[kind]}
        assert project / program in opened
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


@pytest.mark.parametrize("name", sorted(STAGES))
def test_without_the_harness_a_program_makes_the_same(
    project: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runtime: Any
):
    monkeypatch.chdir(project)
    command = importlib.import_module(f"stages.{name}").main
    command.function(Stub(runtime, tmp_path), command.settings.read())
    made = [file.relative_to("stubbed") for file in Path("stubbed").rglob("*") if file.is_file()]
    assert made
    assert {str(file) for file in made if content_hash(file) != content_hash("stubbed" / file)} == set()


def stale(project: Path) -> tuple[set[str], set[str]]:
    """What Snakemake would run, and what DVC holds for changed."""
    chosen = rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n"))
    run(project, "python", "-m", "unequal.pipeline.fingerprint")
    said = json.loads(run(project, "dvc", "status", "--json", "dvc.yaml"))
    return chosen, {stage for stage in said if stage != "code"}


@pytest.mark.parametrize(
    ("file", "old", "new", "reached"),
    [
        ("unequal/files.py", "import csv", "# Tables.\nimport csv", set()),
        ("unequal/files.py", '"""Files that', '"""Here: files that', set()),
        ("unequal/pipeline/tracker.py", "FLUSH_SECONDS = 1.0", "FLUSH_SECONDS = 2.0", set()),
        ("unequal/measures/profiling.py", "", "EDITED = 1\n", {"profile_floor"}),
        ("unequal/evaluation/classifier.py", "", "EDITED = 1\n", {"build_extractor"}),
    ],
)
def test_an_edit_makes_stale_what_it_reaches_in_both_engines(
    project: Path, file: str, old: str, new: str, reached: set[str]
):
    source = project / file
    before = source.read_text(encoding="utf-8")
    assert old in before
    try:
        source.write_text(before.replace(old, new, 1), encoding="utf-8")
        assert stale(project) == (reached, reached)
    finally:
        source.write_text(before, encoding="utf-8")
        run(project, "python", "-m", "unequal.pipeline.fingerprint")
        run(project, "snakemake", "--cores", "1", "--touch")


def test_another_content_outside_makes_stale_who_reads_it_in_both_engines(project: Path):
    images = project / "images.npz"
    before = images.read_bytes()
    try:
        images.touch()
        assert stale(project) == (set(), set())
        write_images(project, seed=1)
        assert images.read_bytes() != before
        # DVC tells of the reader alone until that has run; Snakemake of all that follows, too.
        assert stale(project) == ({"prepare_data", "build_extractor", "profile_floor"}, {"prepare_data"})
        images.unlink()
        for engine in (("snakemake", "--cores", "2"), ("dvc", "repro")):
            said = run(project, *engine, ok=False)
            assert "params.yaml: data.path: images.npz: missing; allowed: a file or folder that is there" in said
            assert "Traceback" not in said
    finally:
        images.write_bytes(before)
        run(project, "python", "-m", "unequal.pipeline.fingerprint")
        run(project, "snakemake", "--cores", "1", "--touch")


@pytest.mark.parametrize(("library", "reached"), [("torch", STAGES - {"check_params", "prepare_data"})])
def test_another_version_of_a_library_is_noticed(project: Path, tmp_path: Path, library: str, reached: set[str]):
    metadata = tmp_path / f"{library}-99.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {library}\nVersion: 99.1+cpu\n")
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{project}"}
    said = run(project, "python", "-m", "unequal.pipeline.fingerprint", environment=path)
    assert {Path(line.split(": ")[0]).stem for line in said.splitlines() if library in line} >= reached
    run(project, "python", "-m", "unequal.pipeline.fingerprint")
    run(project, "snakemake", "--cores", "1", "--touch")


def test_the_small_project_has_the_stages_that_are_tested():
    assert set(FEW) == STAGES | {"code"}
    assert Path("artifacts/code") == CODE
