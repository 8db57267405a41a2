"""The tiny pipeline that several modules look at, made once for all workers."""

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock
from tiny_pipeline import IMAGES, TinyPipeline, write_images

from benchmarks.projects import commit, run, tiny_copy

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


@pytest.fixture(scope="session")
def tiny_pipeline(tmp_path_factory: pytest.TempPathFactory, worker_id: str, warm_place: Path) -> TinyPipeline:
    """A tiny pipeline, run by Snakemake with notes of all that is opened, recorded by DVC and committed.

    For reading alone; whoever changes something takes a copy.
    """
    base = tmp_path_factory.getbasetemp()
    shared = (base if worker_id == "master" else base.parent) / "tiny"
    found = TinyPipeline(shared / "project", shared / "notes")
    with FileLock(shared.with_suffix(".lock")):
        if not shared.exists():
            found.notes.mkdir(parents=True)
            try:
                make(found, warm_place)
            except BaseException:
                shutil.rmtree(shared)
                raise
    return found


def make(tiny: TinyPipeline, warm_place: Path) -> None:
    """Run it out of the warm process."""
    (tiny.notes / "sitecustomize.py").write_text(HOOK)
    project = tiny_copy(tiny.project, {"data.source": "array", "data.path": IMAGES})
    write_images(project)
    commit(project, "tiny")
    noting = {"NOTES": str(tiny.notes), "PYTHONPATH": f"{tiny.notes}{os.pathsep}{tiny.project}"}
    warm = {"PATH": f"{warm_place}{os.pathsep}{os.environ['PATH']}"}
    run(tiny.project, "snakemake", "--cores", "2", environment=noting | warm)
    run(tiny.project, "python", "-m", "unequal.tools.record", environment=warm)
    commit(tiny.project, "recorded")
