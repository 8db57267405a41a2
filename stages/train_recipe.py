"""Train the base on, at equal compute, as a further recipe says."""

from unequal.data.prepared import PreparedData
from unequal.files import read_json
from unequal.models.artifact import load_model
from unequal.pipeline.stage import Run, stage
from unequal.settings.recipe import Recipe
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.samplers import build_sampler
from unequal.training.run import Job, Start, produce


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    training: Training
    recipe: Recipe = key("recipes.{recipe}")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str) -> None:
    """Train a recipe, starting from the base."""
    data = PreparedData.open(run.input("artifacts/data"))
    net, base = load_model(run.input("artifacts/models/base"))
    schedule = base.noise_schedule()
    choice = read_json(run.input(f"artifacts/samplers/{recipe}.json"))
    sampler = build_sampler(alphas_cumprod=schedule.alphas_cumprod.numpy(), **choice)
    start = Start(net, schedule, parent=base)
    produce(run, Job(recipe, start, settings.recipe, settings.training, sampler, data, settings.seed))


if __name__ == "__main__":
    main()
