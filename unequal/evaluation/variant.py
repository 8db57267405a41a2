"""A model or a set of experts, sampled and scored: what every FID of the project comes from."""

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.diffusion.ddim import sampling_timesteps
from unequal.evaluation.fidelity import BuiltExtractor, Scores, score, spread
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.workspace.chunks import Chunks
from unequal.workspace.protocol import Workspace

#: Images kept for the report's grids.
SHOWN = 64


@dataclass(frozen=True)
class Scoring:
    """What all variants of a run are scored by: the same noise, reference and features.

    `data` are the real images; `decode` makes images of what models of latents have sampled.
    """

    workspace: Workspace
    sampling: Sampling
    evaluation: Evaluation
    data: PreparedData
    extractor: BuiltExtractor
    decode: Callable[[Tensor], Tensor] | None = None

    @property
    def reference(self) -> str:
        """Name of the real images, by content."""
        return f"{self.data.facts['sha256'][:12]}, its first {len(self.data.train)} images"

    def timesteps(self, experts: Ensemble) -> list[int]:
        """Timesteps at which a variant is asked."""
        return sampling_timesteps(self.sampling.steps, experts.schedule.timesteps, self.sampling.spacing)

    def scores(self, experts: Ensemble, name: str) -> list[Scores]:
        """Scores of a variant, one a sampling seed; `name` tells variants apart that share a work directory."""
        seeds = self.evaluation.seeds
        # All processes sample together, and then score a seed each.
        samples = {seed: self.samples(experts, name, seed) for seed in seeds}
        makers = {f"{seed}": partial(self.score_of, samples[seed]) for seed in seeds}
        return [Scores(*map(float, row)) for row in self.chunks(f"scores-{name}").all(makers)]

    def score_of(self, images: np.ndarray) -> np.ndarray:
        """Scores of images [N, C, H, W] (uint8), in the order of their fields."""
        chosen, real = self.evaluation, self.data.train
        device, cache = self.workspace.device, self.features_cache()
        found = score(images, real, self.extractor, device, chosen.kid_subset, chosen.allow_singular, cache)
        return np.array(astuple(found))

    def chunks(self, name: str) -> Chunks:
        """Finished chunks of a computation for a variant, which may be a path."""
        return Chunks(self.workspace.work / name.replace("/", "_"))

    def features_cache(self) -> tuple[Path, str] | None:
        """Where Inception's features of the real images are kept; a classifier's are made faster than read."""
        if self.extractor.kind == "classifier":
            return None
        return self.workspace.work.parent / "features", f"{self.reference}, {self.extractor.label}"

    def samples(self, experts: Ensemble, name: str, seed: int) -> np.ndarray:
        """uint8 images [n, C, H, W] of a seed; batches that an earlier attempt has made are not made again."""
        settings = self.sampling
        images = experts.sample(
            self.evaluation.samples,
            self.timesteps(experts),
            seed=seed,
            batch_size=settings.batch_size,
            eta=settings.eta,
            clip=settings.clip,
            progress=self.workspace.runtime.progress,
            # A model of super-resolution enlarges held-out images, which it cannot have learned by heart.
            originals=tensor_of(self.data.holdout),
            chunks=self.chunks(f"samples-{name}-{seed}"),
            variance=settings.variance,
            decode=self.decode,
        )
        return images.numpy()

    def figures(self, experts: Ensemble, name: str) -> dict[str, Any]:
        """A variant's scores, what it costs, and the conditions of both."""
        scores = self.scores(experts, name)
        found = spread(scores) | self.costs(experts) | self.conditions()
        return found | {"scores": [asdict(one) for one in scores]}

    def shown(self, experts: Ensemble, name: str) -> np.ndarray:
        """The first images of the first seed, which a report shows."""
        return self.samples(experts, name, self.evaluation.seeds[0])[:SHOWN]

    def costs(self, experts: Ensemble) -> dict[str, Any]:
        """What a variant cost to train, and costs to sample."""
        records, timesteps = [expert.record for expert in experts.experts], self.timesteps(experts)
        return {
            # Experts share what the base had seen before them.
            "images_seen": records[0].inherited_images + sum(record.images_seen for record in records),
            "training_flops": records[0].inherited_flops + sum(record.training_flops for record in records),
            "sampling_flops_per_image": experts.macs_per_image(timesteps),
            "parameters": experts.parameters,
            "experts": len(records),
            "sampling_steps_per_expert": experts.partition.counts(timesteps),
            "prediction": records[0].spec.prediction,
            "training_seed": records[0].seed,
        }

    def conditions(self) -> dict[str, Any]:
        """What a figure means nothing without."""
        return {
            "samples_per_seed": self.evaluation.samples,
            "sampling_seeds": list(self.evaluation.seeds),
            "spread": "standard deviation over sampling seeds",
            "extractor": self.extractor.label,
            "features": self.extractor.features,
            "reference": f"training images: data set {self.reference}",
            "sampling": self.sampling.model_dump(mode="json"),
            "singular_covariance": min(self.evaluation.samples, len(self.data.train)) < self.extractor.features,
        }
