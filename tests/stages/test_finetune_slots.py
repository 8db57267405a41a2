"""Training inside one slot: by any slot recipe, on that slot alone, and never on slots of another model."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from small_inputs import RECIPE
from stage_project import write_params

from stages.finetune_slots import main
from unequal.data.prepared import PreparedData
from unequal.files import write_json
from unequal.models.folder import ModelRecord, load_record, save_model
from unequal.settings.training import Training

SLOT = RECIPE | {"images": 8, "sampler": {"density": "slot"}}


@pytest.fixture(autouse=True)
def base(
    project: Path,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
    training_settings: Callable[..., Training],
) -> None:
    shutil.copytree(prepared.path, "artifacts/data")
    net = tiny_net()
    save_model(Path("artifacts/models/base"), net, make_record(net, name="base"))
    training = training_settings().model_dump(mode="json")
    write_params(seed=0, training=training, recipes={"slot": SLOT, "slot_high": SLOT})


def run(recipe: str, slot: int, timesteps: int = 50) -> Result:
    slots = [[0, 9], [10, timesteps - 1]]
    write_json(Path("artifacts/slots.json"), {"timesteps": timesteps, "loss": "total", "slots": slots})
    return CliRunner().invoke(main, ["--recipe", recipe, "--slot", str(slot)])


@pytest.mark.parametrize(("recipe", "slot", "held"), [("slot", 1, (0, 9)), ("slot_high", 2, (10, 49))])
def test_the_model_bears_the_names_of_its_recipe_and_slot(recipe: str, slot: int, held: tuple[int, int]) -> None:
    result = run(recipe, slot)
    assert result.exit_code == 0, result.output
    record = load_record(Path(f"artifacts/models/{recipe}_{slot}"))
    assert (record.name, record.parent, record.steps) == (f"{recipe}_{slot}", "base", 2)
    assert (record.first, record.last) == held
