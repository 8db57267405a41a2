"""Mutated params files: the gate accepts or refuses each in one line; accepted ones run or are refused by a stage."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from graph import FOLDERS, laid, model_of
from harness.fuzz import gate, misspelt, mutated, outcome, refusal, tiny_params
from harness.projects import section_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.slow

#: A study for each class of settings.
STUDIES = list({model_of(folder): folder for folder in FOLDERS[1:]}.values())
few = settings(derandomize=True, suppress_health_check=list(HealthCheck), database=None)


@settings(few, max_examples=40)
@given(document=mutated(tiny_params()))
def test_a_mutation_of_the_pipelines_params_is_taken_or_refused_in_one_line(
    document: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refusal(gate, document, tmp_path_factory.getbasetemp())


@settings(few, max_examples=40)
@given(text=misspelt(yaml.safe_dump(tiny_params())))
def test_a_text_that_is_hardly_yaml_is_taken_or_refused_in_one_line(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refusal(gate, text, tmp_path_factory.getbasetemp())


@pytest.mark.parametrize("folder", STUDIES, ids=str)
@settings(few, max_examples=3)
@given(data=st.data())
def test_a_mutation_of_a_studys_params_is_taken_or_refused_in_one_line(
    folder: Path, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    document = yaml.safe_load((laid(folder) / "params.yaml").read_text(encoding="utf-8"))
    refusal(model_of(folder).read, data.draw(mutated(document)), tmp_path_factory.getbasetemp())


#: Mutations that the gate takes; each was a traceback, or stands for a corner of what is allowed.
TAKEN: list[dict[str, Any]] = [
    {},
    {"data.holdout": 0.9, "evaluation.allow_singular": True},
    {"training.checkpoint_every": 1, "training.log_every": 1000, "training.batch_size": 16, "recipes.base.images": 64},
    {"groups.ids": [0], "groups.min_ratio": 1.0, "sampling.steps": [99], "sampling.spacing": None, "sampling.eta": 1.0},
    {"slots.count": 100, "slots.finetune": [100], "profiled_models": ["base"], "scored_models": ["base", "mixed"]},
]


@pytest.mark.thorough
@pytest.mark.parametrize("edits", TAKEN, ids=lambda edits: ",".join(edits) or "none")
def test_what_the_gate_takes_runs_or_is_refused_by_a_stage_in_one_line(edits: dict[str, Any]) -> None:
    document = tiny_params()
    for dotted, value in edits.items():
        section, last = section_of(document, dotted)
        section[last] = value
    found = outcome(document)
    assert found.startswith(("runs", "refused by a stage")), found
