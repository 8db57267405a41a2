"""Score the two ends of the FID scale: real images against real ones, and noise against real ones.

Where samples are compared with held-out images, the good end are as many training images: what a model would sample
that has learned their distribution.
"""

from dataclasses import asdict
from functools import partial

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor, Scorer, require_enough
from unequal.evaluation.sets import Reference, noise
from unequal.pipeline.stage import Run, stage
from unequal.randomness import Stream, numpy_generator
from unequal.settings.evaluation import Evaluation
from unequal.settings.strict import StageSettings

#: Sets of real images that are compared, by `evaluation.against`.
SETS = {"train": "half against half", "holdout": "training against held-out"}


class Settings(StageSettings):
    evaluation: Evaluation


@stage(Settings)
def main(run: Run, settings: Settings, data: str = "data") -> None:
    """Score real images, in a folder of that name below artifacts, and noise."""
    images = PreparedData.open(run.input(f"artifacts/{data}"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    chosen = settings.evaluation
    reference = Reference.of(images, chosen.against)
    real, singular = reference.images, chosen.allow_singular
    # Of these images all variants are scored too, and this stage needs no model.
    require_enough(
        reference.what, len(real), extractor.features, chosen.kid_subset, chosen.allow_singular, chosen.neighbourhood
    )
    # Prepared images are shuffled: any two halves are random halves.
    ends = (real[::2], real[1::2]) if chosen.against == "train" else (images.train[: chosen.samples], real)
    fewest = min(map(len, ends))
    subset, neighbourhood = min(chosen.kid_subset, fewest), min(chosen.neighbourhood, fewest - 1)
    best = Scorer(ends[1], extractor, run.device, subset, singular, neighbourhood)(ends[0])
    random = partial(numpy_generator, chosen.seeds[0], Stream.SAMPLE_START)
    scorer = Scorer(real, extractor, run.device, chosen.kid_subset, singular, chosen.neighbourhood)
    noised = scorer(noise(chosen.samples, real.shape[1:], random))
    run.metrics(
        "results/fid/reference.json",
        {
            "real_against_real": asdict(best) | {"images": [len(one) for one in ends]},
            "noise_against_real": asdict(noised) | {"images": [chosen.samples, len(real)]},
            "real_sets": SETS[chosen.against],
            "reference": reference.description,
            "extractor": extractor.label,
            "noise_seed": chosen.seeds[0],
            "kid_subset": {"real_against_real": subset, "noise_against_real": chosen.kid_subset},
            "neighbourhood": {"real_against_real": neighbourhood, "noise_against_real": chosen.neighbourhood},
        },
    )
