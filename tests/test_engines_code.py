"""Code as both engines see it: what makes stages stale, and that nothing which shapes a result is left out."""

import json
import os
import re
from pathlib import Path

import pytest
from dvc.repo import Repo
from engines_said import rules_of_dry_run
from graph import ROOT
from harness.projects import run
from tiny_pipeline import IMAGES, write_images
from watched import other_without_the_harness, uncounted

from unequal.pipeline.fingerprint import programs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

PROGRAMS = programs(ROOT / "dvc.yaml")


@pytest.fixture(scope="module")
def project(tiny_pipeline, tmp_path_factory):
    return tiny_pipeline.copied(tmp_path_factory.mktemp("code") / "project")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_file_of_the_project_that_a_program_opens_counts(tiny_pipeline, name):
    assert uncounted(tiny_pipeline.project, tiny_pipeline.notes, PROGRAMS[name], IMAGES) == set()


@pytest.mark.parametrize(
    "name",
    [
        "train_base",
        *(pytest.param(name, marks=pytest.mark.thorough) for name in sorted(PROGRAMS.keys() - {"train_base"})),
    ],
)
def test_without_the_harness_a_program_makes_the_same(project, name, tmp_path, runtime):
    assert other_without_the_harness(project, PROGRAMS[name], tmp_path, runtime) == set()


def chosen_and_changed(project: Path) -> tuple[set[str], set[str]]:
    chosen = rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n"))
    run(project, "python", "-m", "unequal.pipeline.fingerprint")
    return chosen, changed_for_dvc(project)


def changed_for_dvc(project: Path) -> set[str]:
    changed = json.loads(run(project, "dvc", "status", "--json", "dvc.yaml"))
    return {re.sub(r"\W", "_", stage) for stage in changed if stage != "code"}


#: A comment, a docstring and the harness, which count for nothing; and a line of what the pruning imports.
EDITS = [
    ("unequal/runtime/files.py", "import csv", "# Tables.\nimport csv"),
    ("unequal/diffusion/schedule.py", '"""', '"""Here: '),
    ("unequal/pipeline/tracker.py", "FLUSH_SECONDS = 1.0", "FLUSH_SECONDS = 2.0"),
    ("unequal/experts/anatomy.py", "", "EDITED = 1\n"),
]
#: Stages that the last of them reaches; if the others counted, they would reach all.
REACHED = {
    "check_params",
    *(f"{stage}_{group}" for stage in ("prune", "finetune_groups", "finetune_unpruned") for group in (0, 1)),
}


def test_an_edit_makes_stale_what_it_reaches_in_both_engines_and_a_comment_nothing(project):
    for file, old, new in EDITS:
        before = (project / file).read_text(encoding="utf-8")
        assert old in before
        (project / file).write_text(before.replace(old, new, 1), encoding="utf-8")
    try:
        chosen, changed = chosen_and_changed(project)
        assert changed == REACHED
        assert chosen >= REACHED
        assert chosen.isdisjoint({"prepare_data", "train_base", "train_mixed", "train_recipe_stratified"})
    finally:
        run(project, "git", "checkout", "--", *(file for file, _, _ in EDITS))
        as_before(project)


def as_before(project: Path) -> None:
    run(project, "python", "-m", "unequal.pipeline.fingerprint")


def test_another_content_outside_makes_stale_who_reads_it_in_both_engines(project):
    before = (project / IMAGES).read_bytes()
    try:
        write_images(project, seed=1)
        assert (project / IMAGES).read_bytes() != before
        chosen, changed = chosen_and_changed(project)
        assert changed == {"prepare_data"}
        assert {"prepare_data", "train_base", "report"} <= chosen
    finally:
        (project / IMAGES).write_bytes(before)
        as_before(project)


@pytest.mark.thorough
def test_data_that_are_gone_stop_both_engines_in_one_line(project):
    gone = (project / IMAGES).rename(project / "elsewhere.npz")
    try:
        for engine in (("snakemake", "--cores", "2"), ("dvc", "repro")):
            said = run(project, *engine, ok=False)
            assert f"data.path: {IMAGES}: missing; allowed: a file or folder that is there" in said
            assert "Traceback" not in said
    finally:
        gone.rename(project / IMAGES)


#: Programs that import diffusers.
WITH_DIFFUSERS = {
    *("train_base", "train_recipe", "train_mixed", "finetune_slots", "finetune_groups"),
    *("profile_loss", "profile_floor", "prune", "evaluate_fid", "check_params"),
    *("build_extractor", "evaluate_reference"),  # their DINOv2 has the loader of all networks from elsewhere
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("library", "reached"), [("torch", set(PROGRAMS)), ("diffusers", WITH_DIFFUSERS)],
    ids=["torch", "diffusers"],
)  # fmt: skip
def test_another_version_of_a_library_is_noticed_by_both_engines(project, tmp_path, library, reached):
    metadata = tmp_path / f"{library}-99.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {library}\nVersion: 99.1+cpu\n")
    graph = Repo(str(project)).stage.load_all(str(project / "dvc.yaml"))
    using = {re.sub(r"\W+", "_", stage.name) for stage in graph if program_of(stage.cmd) in reached}
    environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{project}"}
    try:
        # Snakemake lists the stages after them too.
        chosen = rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n", environment=environment))
        assert (using - chosen, "prepare_data" in chosen) == (set(), "prepare_data" in using)
        assert changed_for_dvc(project) == using
    finally:
        as_before(project)


def program_of(command: str) -> str:
    return command.split(" -m ")[1].split()[0].rpartition(".")[2]
