"""Groups beside the joint model, from a made-up study whose answers are known."""

import numpy as np
import pytest
from grouped import write_study
from one_line import refusal

from unequal.comparison.groups import bins_inside, compare_groups, group_table
from unequal.comparison.results import read_results


def test_a_group_is_compared_with_the_joint_model_by_images_and_errors(tmp_path):
    plan = write_study(tmp_path)
    first, second = compared = compare_groups(read_results(tmp_path / "endpoints", plan), tmp_path / "trainings")
    # Groups that are none of adjacent timesteps have no row.
    assert [row[:2] for row in group_table(compared, "joint").rows] == [("experts", "0 – 3"), ("experts", "4 – 9")]
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
    # Of (4·5.5 + 10)/10 in the first block, the first group has lost a tenth of 4·5.5/10; and so in every block.
    assert first.part == pytest.approx(np.mean([-0.1 * 22 / 32, -0.1 * 24.2 / 35.2, -0.1 * 26.4 / 38.4]))
    assert second.part == pytest.approx(0, abs=1e-12)


def test_a_group_without_a_whole_bin_is_left_out(tmp_path):
    found = read_results(tmp_path / "endpoints", write_study(tmp_path))
    assert bins_inside(found, 5, 7) is None
    for file in tmp_path.glob("trainings/experts/*.json"):
        text = file.read_text(encoding="utf-8").replace('"last": 3', '"last": 8')
        file.write_text(text.replace('"first": 4', '"first": 9'), encoding="utf-8")
    # The bins are 0, 1, 2 – 3, 4 – 7 and 8 – 9.
    assert [(one.last, one.over) for one in compare_groups(found, tmp_path / "trainings")] == [(8, (0, 7))]


def test_groups_that_differ_between_blocks_are_refused(tmp_path):
    found = read_results(tmp_path / "endpoints", write_study(tmp_path))
    file = tmp_path / "trainings/experts/block_1.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"last": 3', '"last": 4'), encoding="utf-8")
    line = refusal(compare_groups, found, tmp_path / "trainings")
    assert "'experts' has other groups in one block than in another; train it again" in line
