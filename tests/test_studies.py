"""Every study, run by its small settings: both engines, and that nothing which shapes a result is left out."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from engines_said import stages_of_repro
from graph import ROOT
from harness.projects import commit, run, tiny_copy
from watched import noting, other_without_the_harness, uncounted

from unequal.pipeline.fingerprint import programs
from unequal.settings.strict import PARAMS, read_yaml
from unequal.settings.training import Runtime

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

STUDIES = sorted(str(file.parent.relative_to(ROOT)) for file in (ROOT / "studies").rglob("dvc.yaml"))


@dataclass(frozen=True)
class TinyStudy:
    """A study that has run in a copy of the project.

    Attributes:
        folder: that of its dvc.yaml, below the project.
        project: the copy.
        notes: what its programs have opened.
    """

    folder: str
    project: Path
    notes: Path

    @property
    def programs(self) -> dict[str, Path]:
        return programs(self.project / self.folder / "dvc.yaml")


@pytest.fixture(scope="module", params=STUDIES)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, warm_start: None) -> TinyStudy:
    """A study, run by Snakemake and recorded by DVC."""
    place = tmp_path_factory.mktemp("study")
    made = TinyStudy(request.param, tiny_copy(place / "project", {}, request.param), place / "notes")
    commit(made.project, "tiny")
    noted = noting(made.notes, made.project)
    run(made.project, "snakemake", "--cores", "2", "--directory", made.folder, environment=noted)
    run(made.project, "python", "-m", "unequal", "record", f"{made.folder}/dvc.yaml")
    return made


def test_both_engines_find_nothing_to_do_after_a_run(study: TinyStudy):
    assert "Nothing to be done" in run(study.project, "snakemake", "--cores", "2", "-n", "--directory", study.folder)
    assert stages_of_repro(run(study.project, "dvc", "repro", f"{study.folder}/dvc.yaml")) == set()


def test_every_file_of_the_project_that_a_program_opens_counts(study: TinyStudy):
    found = {name: uncounted(study.project, study.notes, program) for name, program in study.programs.items()}
    assert {name: files for name, files in found.items() if files} == {}


def test_without_the_harness_a_program_makes_the_same(study: TinyStudy, tmp_path: Path, runtime: Runtime):
    place = study.project / study.folder
    order_in_memory = read_yaml(place / PARAMS)["runtime"]["channels_last"]  # by which sums round otherwise
    runtime = runtime.model_copy(update={"channels_last": order_in_memory})
    found = {
        name: other_without_the_harness(place, program, tmp_path / name, runtime)
        for name, program in study.programs.items()
    }
    assert {name: files for name, files in found.items() if files} == {}
