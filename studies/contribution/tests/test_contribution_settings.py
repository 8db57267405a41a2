"""The study's own settings: ranges that replace something, of a model that enlarges images."""

from pathlib import Path
from typing import Any

import pytest
from params_files import edited

from studies.contribution.params import Params
from unequal.errors import UserError

STUDY = Path(__file__).parents[1] / "params.yaml"


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"contribution.ranges": []}, "contribution.ranges: Tuple should have at least 1 item"),
        ({"contribution.ranges": [[9, 5]]}, "contribution: ranges: [9, 5] must rise and end at 2 or later"),
        ({"contribution.ranges": [[1, 1]]}, "contribution: ranges: [1, 1] must rise and end at 2 or later; 1 is never"),
        ({"contribution.ranges": [[0, 5]]}, "contribution.ranges.0.0: 0: Input should be greater than 0"),
        ({"contribution.ranges": [[1, 9], [1, 9]]}, "contribution: ranges: [[1, 9], [1, 9]] names a range twice"),
        ({"contribution.ranges": [[1, 1001]]}, "contribution.ranges: 1001 lies beyond schedule.timesteps 1000"),
        ({"contribution.windows.width": 1001}, "contribution.windows.width: 1001 exceeds schedule.timesteps 1000"),
        ({"contribution.windows.count": 0}, "contribution.windows.count: 0: Input should be greater than 0"),
        ({"contribution.images": 1}, "contribution.images: 1: Input should be greater than or equal to 2"),
        ({"contribution.shown": 21}, "contribution: shown: 21 exceeds images 20"),
        (
            {"network.condition": {"kind": "none"}},
            "contribution: network.condition.kind: none; allowed: low_resolution",
        ),
        (
            {"network.condition.super_resolution_factor": 3},
            "network.condition.super_resolution_factor: 3 does not divide data.image_size 16",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "edits",
    [
        {"contribution.ranges": [[1, 2], [1000, 1000]]},
        {"contribution.windows": {"count": 1, "width": 1000}},
        {"network.condition.super_resolution_factor": 16},
    ],
)
def test_edges_are_allowed(tmp_path: Path, edits: dict[str, Any]) -> None:
    assert Params.read(edited(STUDY, edits, tmp_path)).contribution is not None
