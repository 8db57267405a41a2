"""Chains of both engines and of DVC's own commands: what stands at the end is what the settings ask for."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from engines_said import rules_of_dry_run, stages_of_repro
from harness.projects import commit, edit, run, small_copy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unequal.runtime.files import read_json

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

#: Pictures of scikit-learn's digits, of which `data.holdout` is held out.
DIGITS = 1797
HOLDOUTS = (0.1, 0.2, 0.3)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = small_copy(tmp_path_factory.mktemp("agree") / "project")
    run(made, "snakemake", "--cores", "2")
    commit(made, "made")
    return made


def held_out(project: Path) -> int:
    first, last = read_json(project / "results/metrics/data.json")["split"]["holdout"]
    return int(last - first)


def ask_for(share: float) -> Callable[[Path], None]:
    return lambda project: edit(project, {"data.holdout": share})


def by_dvc(project: Path) -> None:
    run(project, "dvc", "repro")


def by_snakemake(project: Path) -> None:
    run(project, "snakemake", "--cores", "2")


def command(*words: str) -> Callable[[Path], None]:
    return lambda project: run(project, *words) and None


def pull(project: Path) -> None:
    """Outputs go to a remote, are lost here, and come back."""
    run(project, "dvc", "remote", "add", "--force", "--default", "elsewhere", str(project.with_name("remote")))
    run(project, "dvc", "push", "--quiet")
    for lost in ("artifacts/data", ".dvc/cache"):
        shutil.rmtree(project / lost, ignore_errors=True)
    run(project, "dvc", "pull", "--force", "--allow-missing")


check_out = command("dvc", "checkout", "--force", "--allow-missing")


def check_out_committed(project: Path) -> None:
    run(project, "git", "checkout", "--", "dvc.lock")
    check_out(project)


def lose(name: str) -> Callable[[Path], None]:
    return lambda project: shutil.rmtree(project / name, ignore_errors=True)


ENGINES = (by_dvc, by_snakemake)
OTHERS = (
    command("dvc", "exp", "run", "--quiet"),
    command("dvc", "exp", "run", "--quiet", "-S", "data.holdout=0.3"),  # which edits the settings too
    command("snakemake", "--cores", "2", "--touch"),
    *(pull, check_out, check_out_committed, lose("artifacts/data"), lose("work")),
)


def after(project: Path, steps: list[Callable[[Path], None]], share: float) -> None:
    for step in steps:
        step(project)
    for engine in ENGINES:
        engine(project)
        assert held_out(project) == round(share * DIGITS), engine.__name__
    assert stages_of_repro(run(project, "dvc", "repro")) == set()
    assert rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n")) == set()


def test_each_engine_sees_what_changed_since_the_other_ran(project):
    ask_for(0.2)(project)
    by_dvc(project)
    assert held_out(project) == round(0.2 * DIGITS)
    ask_for(0.3)(project)
    by_snakemake(project)
    assert held_out(project) == round(0.3 * DIGITS)
    assert stages_of_repro(run(project, "dvc", "repro")) == set()
    # Outputs of other settings, which DVC brings back, are stale for both.
    check_out_committed(project)
    assert held_out(project) == round(0.1 * DIGITS)
    chosen = rules_of_dry_run(run(project, "snakemake", "--cores", "2", "-n"))
    assert {"prepare_data", "profile_floor"} <= chosen
    by_dvc(project)
    assert held_out(project) == round(0.3 * DIGITS)


@pytest.mark.thorough
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from((*ENGINES, *OTHERS, *map(ask_for, HOLDOUTS))), min_size=3, max_size=5),
    share=st.sampled_from(HOLDOUTS),
)
def test_whatever_was_run_before(project, steps, share):
    after(project, [*steps, ask_for(share)], share)


def test_an_unknown_key_of_config_is_refused(project):
    said = run(project, "snakemake", "--cores", "2", "--config", "seed=5", ok=False)
    assert "--config seed: unknown; allowed: cluster, gpu; all settings stand in params.yaml" in said
