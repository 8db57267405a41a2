"""Code as both engines see it: what makes stages stale, and that nothing which shapes a result is left out."""

import json
import re
from pathlib import Path

import pytest
import yaml
from engines_said import rules_of_dry_run
from graph import instances
from harness.projects import edit, run
from tiny_pipeline import IMAGES, write_images
from watched import run_without_the_harness

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

#: Programs of the graph but for its gate.
PROGRAMS = {one.source.stem: one.source for one in instances(Path()) if one.source.stem != "check_params"}


@pytest.fixture(scope="module")
def project(tiny_pipeline, tmp_path_factory):
    return tiny_pipeline.copied(tmp_path_factory.mktemp("code") / "project")


@pytest.mark.parametrize(
    "name",
    [
        *("train_base", "build_sampler", "evaluate_fid"),
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in sorted(PROGRAMS.keys() - {"train_base", "build_sampler", "evaluate_fid"})
        ),
    ],
)
def test_without_the_harness_a_program_makes_the_same_by_definitions_that_count(project, name, tmp_path, runtime):
    assert run_without_the_harness(project, PROGRAMS[name], tmp_path, runtime) == (set(), set())


def chosen_and_changed(project: Path) -> tuple[set[str], set[str]]:
    chosen = rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n"))
    run(project, "python", "-m", "unequal.pipeline.fingerprint")
    return chosen, changed_for_dvc(project)


def changed_for_dvc(project: Path) -> set[str]:
    changed = json.loads(run(project, "dvc", "status", "--json", "dvc.yaml"))
    return {re.sub(r"\W", "_", stage) for stage in changed if stage != "code"}


#: A comment, a message, the harness and a loss weight next to others, which count for nothing; and a formula.
EDITS = [
    ("unequal/runtime/files.py", "import csv", "# Tables.\nimport csv"),
    ("unequal/training/optimizer.py", '"""', '"""Here: '),
    ("unequal/errors.py", "def say(", "EDITED = 1\n\n\ndef say("),
    ("unequal/timesteps/weights.py", "WEIGHTS: ", "def added(x):\n    return x\n\n\nWEIGHTS: "),
]
FORMULA = ("unequal/evaluation/distances.py", "(len(features) - 1)", "len(features)")


def plant(project: Path, *edits: tuple[str, str, str]) -> None:
    for file, old, new in edits:
        before = (project / file).read_text(encoding="utf-8")
        assert old in before
        (project / file).write_text(before.replace(old, new, 1), encoding="utf-8")


def test_an_edit_makes_stale_what_computes_with_it_in_both_engines_and_can_be_accepted(project):
    try:
        plant(project, *EDITS)
        chosen, changed = chosen_and_changed(project)
        assert (chosen, changed) == (set(), set())
        plant(project, FORMULA)
        chosen, changed = chosen_and_changed(project)
        scored = {
            f"evaluate_fid_{name}" for name in yaml.safe_load((project / "params.yaml").read_text())["scored_models"]
        }
        assert changed == {*scored, "evaluate_reference"}
        assert chosen == {*changed, "report"}
        said = run(project, "python", "-m", "unequal", "accept", "evaluate_reference")
        assert "accepted: evaluate_reference: " in said and "1 stages accepted" in said
        assert chosen_and_changed(project)[1] == scored
        edit(project, {"sampling.steps": 3})
        refused = run(project, "python", "-m", "unequal", "accept", ok=False)
        assert f"not accepted: evaluate_fid@{min(scored).removeprefix('evaluate_fid_')}: params.yaml changed" in refused
        run(project, "git", "checkout", "--", "params.yaml")
        run(project, "python", "-m", "unequal", "accept")
        assert chosen_and_changed(project) == (set(), set())
    finally:
        run(project, "git", "checkout", "--", ".")
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
