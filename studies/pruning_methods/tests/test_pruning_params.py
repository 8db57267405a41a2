"""Arms of the study differ in how channels are chosen, and in nothing else."""

from pathlib import Path

import yaml

from studies.pruning_methods.params import Params

STUDY = Path(__file__).parents[1] / "params.yaml"


def test_arms_differ_in_pruning_alone() -> None:
    found = yaml.safe_load(STUDY.read_text(encoding="utf-8"))["plans"]
    control = found.pop("random")
    assert {key for one in found.values() for key in one if one[key] != control[key]} == {"pruning"}
    assert found["random_again"] == control


def test_every_method_is_tried_and_every_arm_has_as_many_rates() -> None:
    params = Params.read(STUDY)
    methods = {"unpruned" if plan.pruning is None else plan.pruning.method for plan in params.plans.values()}
    assert methods == {"random", "magnitude", "taylor", "diff_pruning", "proxy", "unpruned"}
    assert {*params.pilot.arms, params.blocks.repeated.arm} == set(params.blocks.arms)
    assert all(plan.groups == params.plans["random"].groups for plan in params.plans.values())
