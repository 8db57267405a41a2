"""Plans for experts in a study's params.yaml: what is impossible is refused in one line."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from studies.tdc.params import Params
from unequal.errors import UserError
from unequal.pruning.reach import check_reach
from unequal.settings.plan import OneGroup, SeveralGroups

STUDY = yaml.safe_load((Path(__file__).parents[1] / "params.yaml").read_text(encoding="utf-8"))
TDC = STUDY["plans"]["shared/tdc"]


def written(folder: Path, plan: dict[str, Any], name: str = "shared/tdc", **experts: Any) -> Path:
    """The study's file with one plan put in, and other experts."""
    document = copy.deepcopy(STUDY)
    document["plans"][name] = copy.deepcopy(TDC) | plan
    document["experts"] |= experts
    path = folder / "params.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_the_study_differs_from_the_papers_method_in_one_choice_a_plan(tmp_path: Path) -> None:
    params = Params.read(written(tmp_path, {}))
    whole = params.plans["shared/longer"]
    assert isinstance(whole.groups, OneGroup)
    method = params.plans["shared/tdc"]
    assert isinstance(method.groups, SeveralGroups)
    for name, plan in params.plans.items():
        if name.split("/")[0] in ("schedules", "ratios", "methods"):
            assert sum(getattr(plan, one) != getattr(method, one) for one in type(plan).model_fields) == 1, name


def test_budgets_of_stage_2_are_alike_where_something_else_is_compared(tmp_path: Path) -> None:
    params = Params.read(written(tmp_path, {}))
    for name, plan in params.plans.items():
        if name.split("/")[0] in ("shared", "schedules", "groups", "ratios", "methods"):
            assert plan.recipe.images == 25600, name


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"groups": {"kind": "whole", "ratio": 0}}, "plans.shared/tdc.groups.ratio: 0: Input should be greater than 0"),
        (
            {"groups": {"kind": "snr", "count": 4, "min_ratio": 1.0}},
            "plans.shared/tdc: min_ratio 1.0 gives 1 distinct limit of FLOPs to 4 groups; allowed: below 1, or one",
        ),
        (
            {"groups": {"kind": "snr", "count": 600, "min_ratio": 0.5}},
            "plans.shared/tdc: of 600 groups, number 2 from the data end is empty: schedule 'linear' jumps over",
        ),
        ({"start": "somewhere"}, "plans.shared/tdc.start: \"somewhere\": Input should be 'base' or 'scratch'"),
        ({"from_images": 100}, "plans.shared/tdc: from_images: 100 is no snapshot of the base; it keeps []"),
        (
            {"recipe": TDC["recipe"] | {"images": 2000}},
            "plans.shared/tdc: recipe.images: 2000 leave 500 to a group; the warm-up takes 640",
        ),
        ({"base_share": 1.0}, "plans.shared/tdc: base_share: 1.0 is for start 'scratch'; allowed: 0"),
        ({"pruning": {"method": "guess"}}, "plans.shared/tdc.pruning: Input tag 'guess' found using 'method'"),
        (
            {"recipe": TDC["recipe"] | {"sampler": {"kind": "uniform"}}},
            "plans.shared/tdc.recipe.sampler.kind: \"uniform\": Input should be 'slot'",
        ),
        (
            {"recipe": TDC["recipe"] | {"snapshots": [5]}},
            "plans.shared/tdc: recipe.snapshots: [5]; allowed: none",
        ),
        (
            {"recipe": TDC["recipe"] | {"prediction": "v_prediction"}},
            "plans.shared/tdc: recipe.prediction: 'v_prediction'; the base's is 'epsilon', of one head",
        ),
    ],
)
def test_impossible_plans_are_refused_in_one_line(tmp_path: Path, plan: dict[str, Any], complaint: str) -> None:
    path = written(tmp_path, plan)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "experts", "complaint"),
    [
        ("shared/other", {}, "experts.plans: does not list plan 'shared/other'; add it there or delete it"),
        ("tdc", {"plans": ["tdc"]}, 'experts.plans.0: "tdc": no name of a plan; allowed: question/plan'),
        ("shared/tdc", {"plans": ["shared/none"]}, "experts.plans: 'shared/none' is no plan; there is: "),
        ("shared/tdc", {"seeds": [1, 1]}, "experts: seeds: [1, 1] names one twice"),
    ],
)
def test_plans_and_experts_go_together(tmp_path: Path, name: str, experts: dict[str, Any], complaint: str) -> None:
    path = written(tmp_path, {}, name, **experts)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}")


def test_equal_excess_needs_a_floor(tmp_path: Path) -> None:
    path = written(tmp_path, {})
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    document["profile"]["floor"] = "none"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(UserError, match=r"plans.schedules/excess_loss.groups.kind: 'excess_loss' needs a floor"):
        Params.read(path)


def test_a_limit_that_no_pruning_reaches_is_refused_beforehand(tmp_path: Path) -> None:
    small = {"groups": {"kind": "whole", "ratio": 0.001}}
    with pytest.raises(UserError, match=r"^params\.yaml: plans\.shared/tdc\.groups: a limit of 0\.001 of the base"):
        check_reach(Params.read(written(tmp_path, small)))
    check_reach(Params.read(written(tmp_path, small | {"pruning": None})))
