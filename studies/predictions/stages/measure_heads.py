"""Sample a network of three heads with every combination of them, and say where its quality is lost."""

from studies.predictions.combining import BY_ERRORS, BY_SAMPLES, Measured, Trial, by_samples
from studies.predictions.settings import Predictions
from studies.predictions.wins import won
from unequal.data.prepared import PreparedData
from unequal.diffusion.predictions import head_weights
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.profile import Profile
from unequal.settings.strict import StageSettings
from unequal.timesteps.partition import equal_log_snr


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile
    sampling: Sampling
    evaluation: Evaluation
    predictions: Predictions


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Measure the combinations of an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    statistics = run.input(f"artifacts/statistics/{arm}/block_{block}.npz")
    seed = torch_seed(settings.seed, block)
    by = Measured(settings.sampling, settings.evaluation, settings.profile, data, extractor, seed)
    trial = Trial(run, run.input(f"artifacts/models/{arm}/block_{block}"), by)
    ranges = equal_log_snr(trial.schedule, settings.predictions.ranges, "predictions.ranges")
    swaps = trial.swaps(ranges, settings.predictions.samples)
    combinations = {select: head_weights(select, trial.products) for select in BY_ERRORS}
    combinations[BY_SAMPLES] = by_samples(ranges, swaps["fid"])
    told = trial.told(combinations)
    run.metrics(
        f"results/heads/{arm}/block_{block}.json",
        {
            "arm": arm,
            "block": block,
            "combinations": told,
            "swaps": swaps,
            "curves": trial.curves,
            "wins": won(statistics),
        },
        {f"fid_{arm}_{block}_{name}": one["fid"] for name, one in told.items()},
    )


if __name__ == "__main__":
    main()
