"""The study's own settings: ranges that replace something, of a model that enlarges images."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from unequal.errors import UserError
from unequal.settings.params import read_params

ROOT = Path(__file__).parents[2]
STUDY = yaml.safe_load((ROOT / "studies/contribution/params.yaml").read_text(encoding="utf-8"))


def written(folder: Path, edits: dict[str, Any]) -> Path:
    document = json.loads(json.dumps(STUDY))  # without aliases: an edit touches one place
    for dotted, value in edits.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            place = place[section]
        place[last] = value
    path = folder / "studies" / "mine" / "params.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


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
            {"network.task": {"kind": "generation"}},
            "contribution: network.task is generation; allowed: super_resolution",
        ),
        (
            {"network.task": {"kind": "super_resolution", "factor": 3}},
            "network.task.factor: 3 does not divide data.image_size 16",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = written(tmp_path, edits)
    with pytest.raises(UserError) as refusal:
        read_params(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "edits",
    [
        {"contribution.ranges": [[1, 2], [1000, 1000]]},
        {"contribution.windows": {"count": 1, "width": 1000}},
        {"network.task": {"kind": "super_resolution", "factor": 16}},
    ],
)
def test_edges_are_allowed(tmp_path: Path, edits: dict[str, Any]) -> None:
    assert read_params(written(tmp_path, edits)).contribution is not None
