"""Fine-tune the base inside one slot of timesteps, as paper 1 does to see what that destroys."""

from unequal.data.prepared import PreparedData
from unequal.models.artifact import load_model
from unequal.pipeline.stage import Run, stage
from unequal.ranges import read_slots
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.partition import widened
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, produce


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    training: Training
    recipe: Recipe = key("recipes.{recipe}")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, slot: int) -> None:
    """Fine-tune the base inside a slot, counted from 1, as a recipe says."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, base = load_model(run.input("artifacts/models/base"))
    first, last = read_slots(run.input("artifacts/slots.json"), base.timesteps).of(slot)
    drawn = widened(first, last, settings.recipe.overlap, base.timesteps)
    sampler = build_sampler("slot", base.timesteps, slot=drawn)
    start = Start(net, base.noise_schedule(), parent=base, first=first, last=last)
    produce(run, Job(f"{recipe}_{slot}", start, settings.recipe, settings.training, sampler, data, settings.seed))


if __name__ == "__main__":
    main()
