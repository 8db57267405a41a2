"""Train one trial of a grid from fresh weights: a recipe at a batch, from a training seed."""

from studies.grid.job import TrialSettings, trial_job
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.schedule import Schedule
from unequal.training.results import write_results
from unequal.training.train import train_fresh


class Settings(TrialSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: AnyNetwork


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Train a trial; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    job = trial_job(settings, data, recipe, batch, seed)
    write_results(run, train_fresh(run, job, settings.network, settings.schedule))


if __name__ == "__main__":
    main()
