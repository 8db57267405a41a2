"""The two ends of the FID scale: real images against real ones, and noise against real ones."""

from dataclasses import asdict
from functools import partial

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor, require_enough, score
from unequal.evaluation.sets import noise
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, numpy_generator
from unequal.settings.evaluation import Evaluation
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    evaluation: Evaluation


@stage(Settings)
def main(run: Run, settings: Settings, data: str = "data") -> None:
    """Score real images, in a folder of that name below artifacts, and noise."""
    images = PreparedData.open(run.input(f"artifacts/{data}"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    chosen = settings.evaluation
    train = images.train
    # Of these images all variants are scored too, and this stage needs no model.
    require_enough("reference images", len(train), extractor.features, chosen.kid_subset, chosen.allow_singular)
    subset = min(chosen.kid_subset, len(train) // 2)
    # Prepared images are shuffled: any two halves are random halves.
    halves = score(train[::2], train[1::2], extractor, run.device, subset, chosen.allow_singular)
    random = partial(numpy_generator, chosen.seeds[0], Stream.SAMPLE_START)
    images_of_noise = noise(chosen.samples, train.shape[1:], random)
    noised = score(images_of_noise, train, extractor, run.device, chosen.kid_subset, chosen.allow_singular)
    run.metrics(
        "results/fid/reference.json",
        {
            "real_against_real": asdict(halves) | {"images": [len(train[::2]), len(train[1::2])]},
            "noise_against_real": asdict(noised) | {"images": [chosen.samples, len(train)]},
            "extractor": extractor.label,
            "noise_seed": chosen.seeds[0],
            "kid_subset": {"real_against_real": subset, "noise_against_real": chosen.kid_subset},
        },
    )


if __name__ == "__main__":
    main()
