"""Measure the endpoints of a training."""

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.measuring import Half, Measuring
from unequal.experiments.outcomes import has_diverged
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Evaluation, Profile, Sampling
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    seed: int
    profile: Profile
    evaluation: Evaluation
    sampling: Sampling = key("measured.{variant}.sampling")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, name: str, training: str, variant: str, seed: int, half: Half) -> None:
    """Measure a training under a name: with a variant's sampling, on a half of the held-out images."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    folder = run.input(f"artifacts/models/{training}/seed_{seed}")
    samples, results = f"artifacts/samples/{name}/seed_{seed}.npy", f"results/endpoints/{name}/seed_{seed}.json"
    if has_diverged(folder):
        np.save(run.output(samples), np.zeros((0, *data.holdout.shape[1:]), np.uint8))
        run.metrics(results, {"diverged": True})
        return
    measuring = Measuring(
        run, data, extractor, settings.profile, settings.sampling, settings.evaluation, settings.seed, seed, half
    )
    figures, shown = measuring.figures(folder, f"{name}_{seed}")
    if run.leads:
        np.save(run.output(samples), shown)
        run.metrics(results, figures)
