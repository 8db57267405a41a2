"""Carry a variant's plan out on its base: its timesteps grouped, the base pruned for each group, trained further."""

import shutil

from unequal.data.prepared import PreparedData
from unequal.errors import Diverged
from unequal.experiments.outcomes import chosen_factor, divergence_recorded, has_diverged
from unequal.experts.plan import ExpertsJob, carry_out, totals
from unequal.pipeline.stage import Run, stage
from unequal.settings.groups import Plan
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training
from unequal.training.train import at_rate


class Settings(StageSettings):
    shared: Training = key("trainings.{training}.training")
    plan: Plan = key("plans.{training}")
    chosen: bool = key("trainings.{training}.chosen")


@stage(Settings)
def main(run: Run, settings: Settings, training: str, seed: int, base: str) -> None:
    """Make the models of a plan."""
    data = PreparedData.open(run.input("artifacts/data"))
    start = run.input(f"artifacts/models/{base}/seed_{seed}")
    run.source(f"plans/{training}")
    factor = chosen_factor(run.input, training) if settings.chosen else 1.0
    plan = settings.plan.model_copy(update={"recipe": at_rate(settings.plan.recipe, factor)})
    model, results = f"artifacts/models/{training}/seed_{seed}", f"results/trainings/{training}/seed_{seed}.json"
    with divergence_recorded(run, model, results):
        if has_diverged(start):
            raise Diverged(f"its base {base} diverged")
        job = ExpertsJob(plan, f"{training}/seed_{seed}", start, data, settings.shared, seed)
        parts, figures = carry_out(run, job)
        for number, part in enumerate(parts):
            shutil.copytree(part, run.output(model) / f"group_{number}", dirs_exist_ok=True)
        run.metrics(results, totals(figures) | {"groups": figures})
