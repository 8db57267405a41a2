"""Train fresh weights by a variant's recipe."""

from unequal.data.prepared import PreparedData
from unequal.experiments.outcomes import chosen_factor, divergence_recorded
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Profile
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.timesteps.building import build_sampler
from unequal.training.initialisation import Start
from unequal.training.mixed_prediction import with_three_heads
from unequal.training.results import costs_of, write_models
from unequal.training.train import TrainingJob, at_rate, spec_for, train


class Settings(StageSettings):
    profile: Profile
    schedule: Schedule = key("trainings.{training}.schedule")
    network: AnyNetwork = key("trainings.{training}.network")
    shared: Training = key("trainings.{training}.training")
    recipe: Recipe = key("trainings.{training}.recipe")
    chosen: bool = key("trainings.{training}.chosen")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, training: str, seed: int) -> None:
    """Train a model."""
    data = PreparedData.open(run.input("artifacts/data"))
    factor = chosen_factor(run.input, training) if settings.chosen else 1.0
    recipe = at_rate(settings.recipe, factor)
    job = TrainingJob(f"{training}/seed_{seed}", recipe, settings.shared, data, seed)
    if recipe.mixing is not None:
        job = with_three_heads(job, settings.network, settings.schedule, settings.profile, run.device)
    start = Start.fresh(settings.network, spec_for(job, settings.network, settings.schedule), seed)
    model, results = f"artifacts/models/{training}/seed_{seed}", f"results/trainings/{training}/seed_{seed}.json"
    with divergence_recorded(run, model, results):
        outcome = train(run, job, start, build_sampler(job.recipe.sampler, start.spec.noise_schedule()))
        if run.leads:
            write_models(run.output(model), outcome)
            run.metrics(results, costs_of(outcome))
