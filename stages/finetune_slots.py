"""Fine-tune the base inside one slot of timesteps, as paper 1 does to see which other timesteps suffer."""

from unequal.data.prepared import PreparedData
from unequal.models.folder import load_record
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import RangeRecipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.initialisation import Scope, Start
from unequal.training.results import write_results
from unequal.training.timestep_files import read_slots
from unequal.training.train import TrainingJob, train_further


class Settings(StageSettings):
    seed: int
    training: Training
    recipe: RangeRecipe = key("recipes.{recipe}")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, slot: int) -> None:
    """Fine-tune the base inside a slot, counted from 1, as a recipe says."""
    data = PreparedData.open(run.input("artifacts/data"))
    base = run.input("artifacts/models/base")
    slots = read_slots(run.input("artifacts/slots.json"), load_record(base).spec.timesteps)
    job = TrainingJob(f"{recipe}_{slot}", settings.recipe, settings.training, data, settings.seed, pictures=True)
    write_results(run, train_further(run, job, Start.of_model(base, Scope(slots.numbered(slot)))))
