"""Sample a model of latents or a set of experts, decode what they make and score it by FID and KID against images."""

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.variant import Scoring
from unequal.latents.autoencoder import check_origin, load_autoencoder
from unequal.pipeline.stage import Run, stage
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sampling: Sampling
    evaluation: Evaluation
    batch_size: int = key("autoencoder.batch_size")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, variant: str) -> None:
    """Score a variant that works in latents."""
    images = PreparedData.open(run.input("artifacts/images"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    folder = run.input("artifacts/autoencoder")
    experts = Ensemble.load(run.input(f"artifacts/models/{variant}"), run.device)
    autoencoder = load_autoencoder(folder, run.device, settings.batch_size)
    check_origin(experts.record, folder)
    scoring = Scoring(run, settings.sampling, settings.evaluation, images, extractor, autoencoder.decode)
    figures = scoring.figures(experts, variant) | {"autoencoder": experts.record.spec.space.autoencoder}
    figures["decoding_flops_per_image"] = autoencoder.decoding_macs(experts.record.spec.space.shape)
    np.save(run.output(f"artifacts/samples/{variant}.npy"), scoring.shown(experts, variant))
    run.metrics(f"results/fid/{variant}.json", figures, headline={f"fid_{variant}": figures["fid_mean"]})


if __name__ == "__main__":
    main()
