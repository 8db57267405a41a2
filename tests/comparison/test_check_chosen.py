"""No arm of a study of plans is trained by what has not been tried."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stage_project import write_params

from unequal.comparison.run import SHARED
from unequal.comparison.stages.check_chosen import main
from unequal.settings.strict import read_yaml

PILOT: dict[str, Any] = {
    "arms": {"fresh": [], "continued": ["joint", "experts"]},
    "tries": {"double": {"lr": 2.0e-3}, "whole": {"lr": 1.0e-3}},
    "seeds": [7, 8],
    "share": 0.5,
}
ARMS = {"bases": ["base"], "fresh": [], "heads": [], "continued": ["joint", "again", "experts"]}
PASSED = Path("artifacts/tries_chosen.json")


def check(chosen: dict[str, str]) -> Any:
    write_params(comparison={"arms": ARMS}, pilot=PILOT | {"chosen": chosen})
    return CliRunner().invoke(main, [])


@pytest.mark.usefixtures("project")
def test_arms_without_a_try_are_named_and_what_passes_says_the_same_whatever_was_chosen():
    done = check({"joint": "whole"})
    said = "no try is named for again, experts; run the pilot, then name one of each: double, whole\n"
    assert (done.exit_code, done.output) == (1, f"check_chosen: pilot.chosen: {said}")
    assert not PASSED.exists()
    passed = set()
    for name in PILOT["tries"]:
        done = check(dict.fromkeys(("joint", "again", "experts"), name))
        assert done.exit_code == 0, done.output
        passed.add(PASSED.read_bytes())
    assert len(passed) == 1


def test_all_trainings_of_arms_wait_for_it_and_the_pilot_does_not():
    stages = read_yaml(SHARED)["stages"]
    waiting = {name for name, one in stages.items() if str(PASSED) in one.get("deps", [])}
    assert waiting == {"train_fresh", "train_heads", "train_continued"}
