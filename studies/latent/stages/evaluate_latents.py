"""Sample a model of latents or a set of experts, decode what they make and score it by FID and KID against images."""

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.variant import Scoring, write_scores
from unequal.models.autoencoder import check_origin, load_autoencoder
from unequal.pipeline.stage import Run, stage
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    sampling: Sampling
    evaluation: Evaluation
    batch_size: int = key("autoencoder.batch_size")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, model: str) -> None:
    """Score a model that works in latents."""
    images = PreparedData.open(run.input("artifacts/images"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    folder = run.input("artifacts/autoencoder")
    experts = Ensemble.load(run.input(f"artifacts/models/{model}"), run.device)
    check_origin(experts.record, folder)
    sampling, runtime = settings.sampling, run.runtime
    calls = sampling.calls(settings.evaluation.images)
    experts = experts.accelerated(sampling.precision, runtime.channels_last, runtime.compile, calls)
    autoencoder = load_autoencoder(folder, run.device, settings.batch_size, sampling.precision)
    scoring = Scoring(run, sampling, settings.evaluation, images, extractor, autoencoder.decode)
    space = experts.record.spec.space
    decoding = {"autoencoder": space.autoencoder, "decoding_flops_per_image": autoencoder.decoding_macs(space.shape)}
    write_scores(scoring, experts, model, decoding)
