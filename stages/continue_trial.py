"""Train one trial of a grid from the base on: a recipe at a batch, from a training seed."""

from unequal.data.prepared import PreparedData
from unequal.files import read_json
from unequal.models.artifact import load_model
from unequal.pipeline.stage import Run, stage
from unequal.settings.grid import trial_name
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, produce
from unequal.training.trial import recipe_at, training_at


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    training: Training
    recipe: Recipe = key("recipes.{recipe}")
    reference_batch: int = key("grid.reference_batch")
    lr_scaling: str = key("grid.lr_scaling")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Train a trial, starting from the base; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, base = load_model(run.input("artifacts/models/base"))
    schedule = base.noise_schedule()
    choice = read_json(run.input(f"artifacts/samplers/{recipe}.json"))
    sampler = build_sampler(alphas_cumprod=schedule.alphas_cumprod.numpy(), **choice)
    chosen = recipe_at(settings.recipe, batch, settings.reference_batch, settings.lr_scaling)
    training = training_at(settings.training, batch, settings.reference_batch)
    start = Start(net, schedule, parent=base)
    produce(run, Job(trial_name(recipe, batch, seed), start, chosen, training, sampler, data, seed))


if __name__ == "__main__":
    main()
