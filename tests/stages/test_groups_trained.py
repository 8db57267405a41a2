"""Training for a group or inside a slot: on its timesteps alone, by its own recipe."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from small_inputs import GROUPS, RECIPE, SLOTS
from stage_project import write_params

import stages.finetune_groups
import stages.finetune_slots
from unequal.models.folder import load_record, save_model
from unequal.models.pruned import take_away
from unequal.runtime.files import write_json
from unequal.settings.training import Training
from unequal.training.train import TrainingJob

SLOT = RECIPE | {"images": 8, "sampler": {"density": "slot"}}
REMOVALS = [("down_blocks.0.resnets.0.conv1", [0, 1, 2, 3])]


@pytest.fixture(autouse=True)
def models(project, prepared, tiny_net, make_record):
    shutil.copytree(prepared.path, "artifacts/data")
    write_json(Path("artifacts/groups.json"), GROUPS)
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net, name="base"))
    take_away(net, REMOVALS)
    record = make_record(net, name="pruned/expert/group_0", first=0, last=9, parent="base")
    save_model(Path("artifacts/pruned/expert/group_0"), net, record, REMOVALS)


def run(training: Callable[..., Training], *options: str, **changes: Any) -> Result:
    write_params(
        seed=0,
        training=training().model_dump(mode="json"),
        recipes={"expert": RECIPE | {"sampler": {"density": "slot"}} | changes},
    )
    return CliRunner().invoke(stages.finetune_groups.main, [*options])


@pytest.mark.parametrize(("architecture", "images"), [("unpruned", 0), ("pruned", 64)])
def test_a_pruned_expert_has_a_budget_of_its_own(architecture, images, monkeypatch, training_settings):
    jobs: list[TrainingJob] = []
    monkeypatch.setattr("unequal.training.train.train", lambda run, job, *asked: jobs.append(job))
    monkeypatch.setattr(stages.finetune_groups, "write_results", lambda run, outcome: None)
    run(training_settings, "--architecture", architecture, "--group", "0", pruned_images=RECIPE["images"] + 64)
    (job,) = jobs
    assert job.recipe.images == RECIPE["images"] + images


@pytest.mark.parametrize(("recipe", "slot", "held"), [("slot", 1, (0, 9)), ("slot_high", 2, (10, 49))])
def test_a_model_of_a_slot_bears_the_names_of_its_recipe_and_slot(recipe, slot, held, training_settings):
    sections = {"training": training_settings().model_dump(mode="json"), "recipes": {"slot": SLOT, "slot_high": SLOT}}
    write_params(seed=0, **sections)
    write_json(Path("artifacts/slots.json"), SLOTS)
    result = CliRunner().invoke(stages.finetune_slots.main, ["--recipe", recipe, "--slot", str(slot)])
    assert result.exit_code == 0, result.output
    record = load_record(Path(f"artifacts/models/{recipe}_{slot}"))
    assert (record.name, record.parent, record.steps) == (f"{recipe}_{slot}", "base", 2)
    assert (record.first, record.last) == held
