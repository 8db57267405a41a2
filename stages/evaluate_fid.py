"""Sample a model or a set of experts and score the images by FID and KID."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.ddim import sampling_timesteps, steps_per_range
from unequal.evaluation.fidelity import Extractor, score, spread
from unequal.files import publish
from unequal.pipeline.stage import Run, stage
from unequal.sampling import Experts
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings

#: Images kept for the report's grids.
SHOWN = 64


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    sampling: Sampling
    evaluation: Evaluation


@stage(Settings)
def main(run: Run, settings: Settings, variant: str) -> None:
    """Score a variant."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = Extractor.load(run.input("artifacts/extractor"))
    experts = Experts.load(run.input(f"artifacts/models/{variant}"), run.device)
    chosen, reference = settings.evaluation, f"{data.facts['sha256'][:12]}, its first {len(data.train)} images"
    timesteps = sampling_timesteps(settings.sampling.steps, experts.schedule.timesteps, settings.sampling.spacing)
    cache = (
        None if extractor.kind == "classifier" else (run.work.parent / "features", f"{reference}, {extractor.label}")
    )
    scores = []
    for seed in chosen.seeds:
        images = sampled(run, settings.sampling, chosen.samples, experts, timesteps, seed)
        scores.append(score(images, data.train, extractor, run.device, chosen.kid_subset, chosen.allow_singular, cache))
    kept = sampled(run, settings.sampling, chosen.samples, experts, timesteps, chosen.seeds[0])[:SHOWN]
    np.save(run.output(f"artifacts/samples/{variant}.npy"), kept)
    figures: dict[str, Any] = (
        spread(scores) | costs(experts, timesteps) | conditions(settings, extractor, reference, len(data.train))
    )
    figures["scores"] = [asdict(one) for one in scores]
    run.metrics(f"results/fid/{variant}.json", figures, headline={f"fid_{variant}": figures["fid_mean"]})


def sampled(run: Run, settings: Sampling, count: int, experts: Experts, timesteps: list[int], seed: int) -> np.ndarray:
    """The images of a seed, from the work directory if an earlier attempt has made them."""
    path: Path = run.work / f"samples-{seed}.npy"
    if not path.exists():
        images = experts.sample(
            count,
            timesteps,
            seed,
            settings.batch_size,
            settings.eta,
            settings.clip,
            run.runtime.progress,
        )
        partial = path.with_suffix(".partial.npy")
        np.save(partial, images.numpy())
        publish(partial, path)
    return np.load(path, allow_pickle=False)


def costs(experts: Experts, timesteps: list[int]) -> dict[str, Any]:
    """What the variant cost to train, and costs to sample."""
    records = [expert.record for expert in experts.experts]
    ranges = [(record.first, record.last) for record in records]
    return {
        # Experts share what the base had seen before them.
        "images_seen": records[0].inherited_images + sum(record.images_seen for record in records),
        "training_flops": records[0].inherited_flops + sum(record.training_flops for record in records),
        "sampling_flops_per_image": experts.macs_per_image(timesteps),
        "parameters": experts.parameters,
        "experts": len(records),
        "sampling_steps_per_expert": steps_per_range(timesteps, ranges),
        "prediction": records[0].prediction,
        "training_seed": records[0].seed,
    }


def conditions(settings: Settings, extractor: Extractor, reference: str, training_images: int) -> dict[str, Any]:
    """What a figure means nothing without."""
    return {
        "samples_per_seed": settings.evaluation.samples,
        "sampling_seeds": list(settings.evaluation.seeds),
        "spread": "standard deviation over sampling seeds",
        "extractor": extractor.label,
        "features": extractor.features,
        "reference": f"training images: data set {reference}",
        "sampling": settings.sampling.model_dump(mode="json"),
        "singular_covariance": min(settings.evaluation.samples, training_images) < extractor.features,
    }


if __name__ == "__main__":
    main()
