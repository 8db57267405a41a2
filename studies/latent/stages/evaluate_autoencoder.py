"""Score what an autoencoder leaves of real images: no model of its latents can do better than decoding does."""

from dataclasses import asdict

import numpy as np

from unequal.data.prepared import PreparedData, tensor_of
from unequal.evaluation.fidelity import BuiltExtractor, Scorer
from unequal.evaluation.sets import ImageSet, Reference
from unequal.evaluation.variant import SHOWN
from unequal.models.autoencoder import load_autoencoder
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Evaluation
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    evaluation: Evaluation
    batch_size: int = key("autoencoder.batch_size")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Score reconstructions of training images, as many as samples, and keep some of held-out ones."""
    images = PreparedData.open(run.input("artifacts/images"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    autoencoder = load_autoencoder(run.input("artifacts/autoencoder"), run.device, settings.batch_size)
    chosen = settings.evaluation
    known = images.train[: chosen.samples]
    subset = min(chosen.kid_subset, len(known))
    parts = tensor_of(known).split(settings.batch_size)
    again = ImageSet(len(known), lambda: (autoencoder.reconstruct(part).numpy() for part in parts))
    real = Reference.of(images, chosen.against).images
    found = Scorer(real, extractor, run.device, subset, chosen.allow_singular, chosen.neighbourhood)(again)
    shown = autoencoder.reconstruct(tensor_of(images.holdout[:SHOWN])).numpy()
    np.save(run.output("artifacts/samples/reconstructions.npy"), shown)
    run.metrics(
        "results/fid/reconstructions.json",
        asdict(found) | {"images": len(known), "extractor": extractor.label, "kid_subset": subset},
    )
