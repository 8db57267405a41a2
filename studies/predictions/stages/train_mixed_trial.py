"""Train one trial of a grid with three heads (x0, v, ε): a mixed recipe at a batch, from a training seed."""

from studies.grid.job import TrialSettings, trial_job
from unequal.data.prepared import PreparedData
from unequal.pipeline.stage import Run, stage
from unequal.settings.network import AnyNetwork
from unequal.settings.profile import Profile
from unequal.settings.schedule import Schedule
from unequal.training.mixed_prediction import with_three_heads
from unequal.training.results import write_results
from unequal.training.train import train_fresh


class Settings(TrialSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    network: AnyNetwork
    profile: Profile


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, recipe: str, batch: str, seed: int) -> None:
    """Train a mixed trial; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    job = trial_job(settings, data, recipe, batch, seed)
    job = with_three_heads(job, settings.network, settings.schedule, settings.profile, run.device)
    write_results(run, train_fresh(run, job, settings.network, settings.schedule))


if __name__ == "__main__":
    main()
