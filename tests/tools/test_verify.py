"""Results recorded for other code than made them: where it makes the same, and only there."""

import shutil
from pathlib import Path

import pytest
from engines_said import rules_of_dry_run, stages_of_repro

from benchmarks.projects import commit, edit, run, small_copy
from unequal.errors import UserError
from unequal.settings.strict import read_yaml
from unequal.tools.verify import shrink, standing

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm_start")]

VERIFY = ("python", "-m", "unequal.tools.record", "--verify")
PROGRAM = "stages/profile_floor.py"
MEAN = "    mean = float(floor.mean()) if floor.size else None\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small project, run by Snakemake, recorded and committed."""
    project = small_copy(tmp_path_factory.mktemp("verify"))
    run(project, "snakemake", "--cores", "2")
    run(project, "python", "-m", "unequal.tools.record")
    commit(project, "recorded")
    return project


def rewrite(project: Path, new: str) -> None:
    program = project / PROGRAM
    program.write_text(program.read_text(encoding="utf-8").replace(MEAN, new), encoding="utf-8")


def test_what_makes_something_else_or_was_not_executed_is_named_and_not_recorded(recorded: Path):
    before = (recorded / PROGRAM).read_text(encoding="utf-8")
    rewrite(recorded, MEAN.replace("mean()", "max()") + "    if mean == 7:\n        mean = 8.0\n")
    never = (recorded / PROGRAM).read_text(encoding="utf-8").splitlines().index("        mean = 8.0") + 1
    try:
        said = run(recorded, *VERIFY, ok=False)
        assert "results/metrics/floor.json: differs" in said
        assert f"{PROGRAM}:{never}: mean = 8.0  (changed, not executed)" in said
        assert "if mean == 7" not in said
        assert "artifacts/profiles/floor.npz" not in said
        assert run(recorded, "git", "status", "--porcelain", "--", "dvc.lock") == ""
    finally:
        (recorded / PROGRAM).write_text(before, encoding="utf-8")


@pytest.mark.thorough
def test_what_makes_the_same_is_recorded_for_both_engines(recorded: Path):
    rewrite(recorded, MEAN.replace("floor.mean()", "np.mean(floor)"))
    assert rules_of_dry_run(run(recorded, "snakemake", "--cores", "2", "-n")) == {"profile_floor"}
    assert run(recorded, *VERIFY).endswith("dvc.yaml: 4 stages recorded\n")
    assert "Nothing to be done" in run(recorded, "snakemake", "--cores", "2", "-n")
    assert stages_of_repro(run(recorded, "dvc", "repro")) == set()
    assert "Nothing to be done" in run(recorded, "snakemake", "--cores", "2", "-n")
    assert run(recorded, "git", "worktree", "list").count("\n") == 1


@pytest.mark.thorough
def test_what_lies_elsewhere_is_recorded_as_it_was(recorded: Path, tmp_path: Path):
    """A clone has the lock file and the small results, and none of the models."""
    run(tmp_path, "git", "clone", "--quiet", str(recorded), "clone")
    clone = tmp_path / "clone"
    before = read_yaml(clone / "dvc.lock")["stages"]
    rewrite(clone, MEAN.replace("mean()", "mean().item()"))
    assert run(clone, *VERIFY).endswith("dvc.yaml: 4 stages recorded\n")
    after = read_yaml(clone / "dvc.lock")["stages"]
    assert changed_paths(before, after) == {"artifacts/code/profile_floor.json"}
    assert stages_of_repro(run(clone, "dvc", "repro", "--allow-missing")) == set()


def changed_paths(before: dict, after: dict) -> set[str]:
    """Paths whose hash two lock files tell differently."""
    old, new = (
        {
            (name, item["path"], item.get("md5"))
            for name, one in stages.items()
            for item in (*one.get("deps", []), *one.get("outs", []))
        }
        for stages in (before, after)
    )
    assert before.keys() == after.keys()
    return {path for _, path, _ in old ^ new}


def test_only_what_is_finished_is_recorded(recorded: Path, tmp_path: Path):
    """What Snakemake would make again keeps the record that it has, or none."""
    project = shutil.copytree(recorded, tmp_path / "project", symlinks=True)
    before = read_yaml(project / "dvc.lock")["stages"]
    edit(project, {"profile.images": 3})
    (project / "dvc.lock").unlink()
    said = run(project, "python", "-m", "unequal.tools.record", "--finished")
    after = read_yaml(project / "dvc.lock")["stages"]
    assert said.endswith(f"dvc.yaml: {len(after)} stages recorded\n")
    assert "profile_floor" in before
    assert "profile_floor" not in after
    assert after == {name: before[name] for name in after}
    assert len(after) > 0


def shrunk(folder: Path, tiny: str, *, passing_over: bool = False) -> dict:
    """A params file of two recipes with one optimizer, changed as a text says."""
    params, budgets = folder / "params.yaml", folder / "tiny.yaml"
    params.write_text("recipes: {base: {optimizer: &own {lr: 1}}, other: {optimizer: *own}}\n", encoding="utf-8")
    budgets.write_text(tiny, encoding="utf-8")
    shrink(params, budgets, passing_over=passing_over)
    return read_yaml(params)["recipes"]


def test_a_small_setting_changes_one_place_where_sections_share_an_anchor(tmp_path: Path):
    recipes = shrunk(tmp_path, "recipes.base.optimizer.lr: 2\n")
    assert recipes == {"base": {"optimizer": {"lr": 2}}, "other": {"optimizer": {"lr": 1}}}
    assert shrunk(tmp_path, "recipes.other: null\n").keys() == {"base"}


@pytest.mark.parametrize("key", ["recipes.none.images", "recipes.base.optimizer.lr.low"])
def test_a_small_setting_of_a_section_that_is_not_there_is_refused(tmp_path: Path, key: str):
    with pytest.raises(UserError, match=f"{key}: there is no such section in .*params.yaml"):
        shrunk(tmp_path, f"{key}: 2\n")


def test_what_older_code_has_no_section_for_is_passed_over_there(tmp_path: Path):
    recipes = shrunk(tmp_path, "recipes.none.images: 2\nrecipes.other.optimizer.lr: 2\n", passing_over=True)
    assert recipes == {"base": {"optimizer": {"lr": 1}}, "other": {"optimizer": {"lr": 2}}}


def test_what_the_present_code_has_made_or_nobody_has_is_not_compared(tmp_path: Path):
    graph = tmp_path / "dvc.yaml"
    graph.write_text("stages: {gate: {}, train: {}, train_again: {}, report: {}}\n", encoding="utf-8")
    told = {
        "gate": {"gate": "1"},
        "train@0": {"train": "1"},
        "train@1": {"train": "2"},
        "train_again@2": {"train": "2"},
    }
    assert standing(graph, told, {"gate": "1", "train": "2"}) == {"gate", "train_again", "report"}
