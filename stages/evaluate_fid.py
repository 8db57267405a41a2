"""Sample a model or a set of experts and score the images by FID, KID, precision and recall."""

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.profiles import read_losses
from unequal.evaluation.variant import Scoring, write_scores
from unequal.models.conditions import LowResolution
from unequal.pipeline.stage import Run, stage
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import BY_PROFILE, Evaluation, Sampling
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    sampling: Sampling
    evaluation: Evaluation


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, model: str) -> None:
    """Score a model."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    runtime, precision = run.runtime, settings.sampling.precision
    folder = run.input(f"artifacts/models/{model}")
    experts = Ensemble.load(folder, run.device)
    calls = settings.sampling.calls(settings.evaluation.images)
    experts = experts.accelerated(precision, runtime.channels_last, runtime.compile, calls)
    experts.record.spec.check_images(data, model)
    by_profile = settings.sampling.spacing in BY_PROFILE
    losses = read_losses(run.input("artifacts/profiles/base.npz")).mean(1) if by_profile else None
    scoring = Scoring(run, settings.sampling, settings.evaluation, data, extractor, losses=losses)
    write_scores(scoring, experts, model)
    if not isinstance(experts.record.spec.conditioning, LowResolution):  # which images alone make a sample of
        run.register(model, folder, scoring.timesteps(experts), settings.sampling)
