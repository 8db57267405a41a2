"""Carry a plan out from a training seed: group the timesteps, prune the base for each group, train what it came to."""

import shutil

from unequal.artifacts.partitions import excess_of
from unequal.data.prepared import PreparedData
from unequal.experts.plan import ExpertsJob, carry_out, totals
from unequal.pipeline.stage import Run, stage
from unequal.settings.plan import Plan
from unequal.settings.strict import StageSettings, key
from unequal.settings.training import Training


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    training: Training
    plan: Plan = key("plans.{plan}")


@stage(Settings)
def main(run: Run, settings: Settings, plan: str, seed: int) -> None:
    """Make the models of a plan."""
    data, name = PreparedData.open(run.input("artifacts/data")), f"{plan}/seed_{seed}"
    base = run.input("artifacts/models/base")
    run.source(f"plans/{plan}")
    excess = None
    if settings.plan.groups.needs_excess:
        excess = excess_of(run.input("artifacts/profiles/base.npz"), run.input("artifacts/profiles/floor.npz"))
    job = ExpertsJob(settings.plan, name, base, data, settings.training, seed, excess)
    models, figures = carry_out(run, job)
    folder = run.output(f"artifacts/models/{name}")
    for number, model in enumerate(models):
        shutil.copytree(model, folder / f"group_{number}")
    for one in (one for one in figures if one["pruning"] and one["pruning"]["bank"]):
        run.table(f"memory_bank_group_{one['group']}", one["pruning"]["bank"])
    whole = totals(figures)
    run.metrics(f"results/experts/{name}.json", {"plan": plan, "seed": seed} | whole | {"groups": figures})


if __name__ == "__main__":
    main()
