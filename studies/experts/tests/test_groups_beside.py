"""Groups beside the joint model, from a made-up study whose answers are known."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from piloted import write_pilot
from stage_project import write_params

from studies.blocks.findings import read_found
from studies.blocks.settings import Blocks
from studies.experts.groups import besides, bins_inside, group_table
from studies.experts.stages.report_experts import main
from unequal.errors import UserError
from unequal.files import write_json

STUDY = Path(__file__).parents[1]
BLOCKS = (0, 1, 2)
#: Ten timesteps in bins of 1, 1, 2, 4 and 2; experts for 0 … 3 and 4 … 9, the first of which errs 10 % less.
CURVE = {"timesteps": [10], "first": [0, 1, 2, 4, 8]}
JOINT = [8.0, 6.0, 4.0, 2.0, 1.0]
GROUPS = {
    "experts": [(0, 3, 1), (4, 9, 1)],
    "joint": [(0, 9, 1)],
    "again": [(0, 9, 1)],
    "scattered": [(0, 8, 2), (1, 9, 2)],
}
PLAN: dict[str, Any] = {
    "question": "Do they?",
    "seeds": list(BLOCKS),
    "arms": list(GROUPS),
    "comparisons": [{"arm": arm, "control": "joint"} for arm in ("experts", "scattered")],
    "repeated": {"arm": "again", "control": "joint"},
    "endpoints": {"loss_over_timesteps": 0.01, "fid": 0.1},
}


def losses(arm: str, block: int) -> list[float]:
    factors = [0.9, 0.9, 0.9, 1.0, 1.0] if arm == "experts" else [1.0] * 5
    return [(1 + 0.1 * block) * factor * loss for factor, loss in zip(factors, JOINT, strict=True)]


def write_study(folder: Path) -> Blocks:
    for arm, groups in GROUPS.items():
        for block in BLOCKS:
            write_json(
                folder / f"endpoints/{arm}/block_{block}.json",
                {
                    "arm": arm,
                    "block": block,
                    "made_by": arm,
                    "endpoints": {"loss_over_timesteps": 1.0 + 0.01 * block, "fid": 1.0 + 0.02 * block},
                    "scores": {},
                    "costs": dict.fromkeys(("images", "training_flops", "sampling_flops", "parameters"), 1000),
                    "curve": CURVE | {"loss": losses(arm, block)},
                    "conditions": {"data": "made-up images"},
                },
            )
            told = [
                {"first": first, "last": last, "stride": stride, "images_seen": 500, "inherited_images_inside": 40}
                for first, last, stride in groups
            ]
            write_json(folder / f"trainings/{arm}/block_{block}.json", {"images": 1000, "groups": told})
    return Blocks.model_validate(PLAN, strict=False)


def test_a_group_is_told_beside_the_joint_model_where_both_were_fed_and_err(tmp_path: Path) -> None:
    plan = write_study(tmp_path)
    first, second = besides(read_found(tmp_path / "endpoints", plan), tmp_path / "trainings")
    assert (first.arm, first.first, first.last, second.first, second.last) == ("experts", 0, 3, 4, 9)
    # The joint model's 1000 images lie uniformly over timesteps; an expert's own are all inside, its base's in part.
    assert (first.joint_images, second.joint_images) == pytest.approx((400, 600))
    assert (first.images, second.images) == (540, 540)
    assert (first.over, second.over) == ((0, 3), (4, 9))
    # Means over timesteps, not over bins: (8 + 6 + 2·4)/4 and (4·2 + 2·1)/6, which differ between blocks.
    assert first.joint_loss == pytest.approx([5.5, 6.05, 6.6])
    assert second.joint_loss == pytest.approx(np.array([1.0, 1.1, 1.2]) * 10 / 6)
    # By the same share in every block, so without error.
    assert first.change == pytest.approx((np.log(0.9), 0.0), abs=1e-12)
    assert second.change == pytest.approx((0.0, 0.0), abs=1e-12)


def test_groups_that_are_none_of_adjacent_timesteps_have_no_row(tmp_path: Path) -> None:
    plan = write_study(tmp_path)
    told = besides(read_found(tmp_path / "endpoints", plan), tmp_path / "trainings")
    assert [row[:2] for row in group_table(told, "joint").rows] == [("experts", "0 – 3"), ("experts", "4 – 9")]


def test_a_range_without_a_whole_bin_is_refused(tmp_path: Path) -> None:
    found = read_found(tmp_path / "endpoints", write_study(tmp_path))
    with pytest.raises(UserError, match="no bin of the curves lies within timesteps 5 to 7; measure by finer ones"):
        bins_inside(found, 5, 7)


def test_groups_of_one_block_that_are_not_those_of_another_are_refused(tmp_path: Path) -> None:
    plan = write_study(tmp_path)
    file = tmp_path / "trainings/experts/block_1.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"last": 3', '"last": 4'), encoding="utf-8")
    with pytest.raises(UserError, match="'experts' has other groups in one block than in another; train it again"):
        besides(read_found(tmp_path / "endpoints", plan), tmp_path / "trainings")


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
