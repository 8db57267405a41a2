"""The page of the study, from a made-up one."""

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from grouped import PLAN, write_study
from piloted import write_pilot
from stage_project import write_params

from studies.experts.stages.report_experts import main

STUDY = Path(__file__).parents[1]


def test_the_page_has_the_table_and_the_rows_stand_in_a_file(project: Path) -> None:
    plan = yaml.safe_load((STUDY / "params.yaml").read_text(encoding="utf-8"))["blocks"]
    write_params(blocks=plan | PLAN, subject="made-up images", effects={})
    write_study(project / "results")
    write_pilot(project / "results", *PLAN["endpoints"])
    done = CliRunner().invoke(main, [], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "Experts, group by group" in (project / "results/report.html").read_text(encoding="utf-8")
    with (project / "results/groups.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["arm"], row["first"]) for row in rows] == [("experts", "0"), ("experts", "4")]
    assert float(rows[0]["log_change"]) == pytest.approx(np.log(0.9))
