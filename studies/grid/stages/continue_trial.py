"""Train one trial of a grid from the base on: a recipe at a batch, from a training seed."""

from studies.grid.job import TrialSettings, trial_job
from unequal.artifacts.timestep_files import read_sampler
from unequal.data.prepared import PreparedData
from unequal.models.folder import load_record
from unequal.pipeline.stage import Run, stage
from unequal.training.initialisation import Start
from unequal.training.results import write_results
from unequal.training.train import train_further


@stage(TrialSettings, shared=True)
def main(run: Run, settings: TrialSettings, recipe: str, batch: str, seed: int) -> None:
    """Train a trial, starting from the base; the batch is written as images at once × parts accumulated."""
    data = PreparedData.open(run.input("artifacts/data"))
    base = run.input("artifacts/models/base")
    schedule = load_record(base).spec.noise_schedule()
    sampler = read_sampler(run.input(f"artifacts/samplers/{recipe}.json"), schedule)
    job = trial_job(settings, data, recipe, batch, seed)
    write_results(run, train_further(run, job, Start.of_model(base), sampler))


if __name__ == "__main__":
    main()
