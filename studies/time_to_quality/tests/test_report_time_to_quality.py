"""The study's page, from the trials that were recorded."""

import shutil
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from matplotlib.figure import Figure

from studies.time_to_quality.figures import samplers
from studies.time_to_quality.params import Params
from studies.time_to_quality.stages.report_time_to_quality import main
from unequal.data.prepared import PreparedData
from unequal.files import read_json, write_json
from unequal.workspace.devices import computed_on

STUDY = Path(__file__).parents[1] / "digits"


@pytest.mark.usefixtures("project")
def test_recorded_trials_make_the_recorded_verdicts(prepared: PreparedData) -> None:
    shutil.copy(STUDY / "params.yaml", "params.yaml")
    shutil.copytree(STUDY / "results/trials", "results/trials")
    for path in Path("results/trials").glob("*.json"):  # recorded before it stood in them
        write_json(path, read_json(path) | computed_on(torch.device("cpu")))
    shutil.copytree(prepared.path, "artifacts/data")
    assert CliRunner().invoke(main, []).exit_code == 0
    for name in ("verdicts.json", "time_to_quality.csv"):
        assert (Path("results") / name).read_text() == (STUDY / "results" / name).read_text()
    assert len(list(Path("results/pictures").glob("*.png"))) == 2


def test_samplers_that_draw_alike_are_drawn_once() -> None:
    settings, figure = Params.read(STUDY / "params.yaml"), Figure()
    recipes = {name: settings.recipes[name] for name in ("uniform", "curriculum")}
    samplers(figure, {**recipes, "again": recipes["uniform"]}, settings.schedule)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["uniform", "curriculum"]
