"""Sampling and scoring of a model or a set of experts: the source of every FID of the project."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import spaced_timesteps
from unequal.evaluation.fidelity import BuiltExtractor, Scorer, Scores, features_key, half_of, spread
from unequal.evaluation.sets import ImageSet, Reference
from unequal.runtime.chunks import Chunks, Maker, Makers, counted
from unequal.runtime.devices import chosen_precision, computed_on
from unequal.runtime.files import write_json
from unequal.runtime.progress import progress
from unequal.runtime.workspace import Workspace
from unequal.sampling.ensemble import Ensemble, cut
from unequal.sampling.guidance import guided
from unequal.settings.evaluation import TRAINED_HERE, Evaluation, Sampling

#: Images stored for the report's grids.
SHOWN = 64


@dataclass(frozen=True)
class Scoring:
    """Scoring of all variants of a run, with the same noise, reference and features.

    `data` are the real images; `decode` makes images of what models of latents have sampled; `losses` are the base's of
    each timestep, [T], where the spacing of timesteps goes by them.
    """

    workspace: Workspace
    sampling: Sampling
    evaluation: Evaluation
    data: PreparedData
    extractor: BuiltExtractor
    decode: Callable[[Tensor], Tensor] | None = None
    losses: np.ndarray | None = None

    @property
    def reference(self) -> Reference:
        """The real images that samples are compared with."""
        return Reference.of(self.data, self.evaluation.against)

    def timesteps(self, experts: Ensemble) -> list[int]:
        """Timesteps that a variant is led through."""
        return spaced_timesteps(self.sampling.steps, experts.schedule, self.sampling.spacing, self.losses)

    def scores(self, experts: Ensemble, name: str) -> list[Scores]:
        """Scores of a variant, one a sampling seed; `name` distinguishes variants that share a work directory."""
        seeds = self.evaluation.seeds
        self.scorer.check(self.evaluation.samples)  # said before any is sampled
        # All processes sample together, and then score a seed each.
        for seed in seeds:
            self.make_samples(experts, name, seed)
        shape = (len(fields(Scores)),)
        makers = {str(s): Maker(shape, partial(self.score_of, self.samples(experts, name, s))) for s in seeds}
        return [Scores(*map(float, row)) for row in self.chunks(f"scores-{name}").all(makers)]

    @cached_property
    def scorer(self) -> Scorer:
        """Scores images against the real ones."""
        chosen, real = self.evaluation, self.reference
        return Scorer(
            real.images,
            self.extractor,
            self.workspace.device,
            chosen.kid_subset,
            chosen.allow_singular,
            chosen.neighbourhood,
            self.features_cache(),
            self.workspace.runtime.progress,
            real.what,
        )

    def score_of(self, images: ImageSet) -> np.ndarray:
        """Scores of images, in the order of their fields."""
        return np.array(astuple(self.scorer(images)))

    def chunks(self, name: str) -> Chunks:
        """Finished chunks of a computation for a variant, which may be a path."""
        return Chunks(self.workspace.work / name.replace("/", "_"))

    def features_cache(self) -> tuple[Path, str] | None:
        """Folder for Inception's features of the real images; those of a small one are computed faster than read."""
        if self.extractor.kind in TRAINED_HERE:
            return None
        key = features_key(self.reference.name, self.extractor, self.evaluation.neighbourhood, self.workspace.device)
        return self.workspace.work.parent / "features", key

    def samples(self, experts: Ensemble, name: str, seed: int) -> ImageSet:
        """The images of a seed, from the stored batches; missing ones are made."""
        makers = self.batches(experts, seed)
        return ImageSet(self.evaluation.samples, lambda: self.batches_kept(name, seed).each(makers))

    def make_samples(self, experts: Ensemble, name: str, seed: int) -> None:
        """Sample this process's part of a seed's batches; those of an earlier attempt are not made again."""
        makers = self.batches(experts, seed)
        shown, label = self.workspace.runtime.progress, f"samples of seed {seed}"
        stored = self.batches_kept(name, seed)
        with progress(len(stored.own(makers)), "batches", label=label, shown=shown) as bar:
            stored.make(counted(makers, bar))

    def batches(self, experts: Ensemble, seed: int) -> Makers:
        """Functions that sample the batches of a seed, uint8 [B, C, H, W], by the number of the first image."""
        timesteps, settings = self.timesteps(experts), self.sampling
        sampled = guided(experts, settings.guidance)
        # A model of super-resolution enlarges held-out images, which it cannot have memorized.
        originals = tensor_of(self.data.holdout)
        labels = self.data.labels_of("holdout") if experts.record.spec.conditioning.takes_labels_of_images else None

        def make(ids: range) -> np.ndarray:
            return sampled.images(
                ids,
                timesteps,
                seed=seed,
                eta=settings.eta,
                clip=settings.clip,
                originals=originals,
                labels=labels,
                variance=settings.variance,
                decode=self.decode,
                solver=settings.solver,
            ).numpy()

        image = self.reference.images.shape[1:]
        return {
            str(ids.start): Maker((len(ids), *image), partial(make, ids))
            for ids in cut(self.evaluation.samples, settings.batch_size)
        }

    def batches_kept(self, name: str, seed: int) -> Chunks:
        """Folder in which the batches of a seed are stored."""
        return self.chunks(f"samples-{name}-{seed}")

    def figures(self, experts: Ensemble, name: str) -> dict[str, Any]:
        """A variant's scores, what it costs, and the conditions of both."""
        scores = self.scores(experts, name)
        figures = spread(scores) | self.costs(experts) | self.conditions()
        return figures | {"scores": [asdict(score) for score in scores]}

    def shown(self, experts: Ensemble, name: str) -> np.ndarray:
        """The first images of the first seed, which a report shows."""
        return self.samples(experts, name, self.evaluation.seeds[0]).first(SHOWN)

    def costs(self, experts: Ensemble) -> dict[str, Any]:
        """Cost of a variant in training and in sampling."""
        records = [expert.record for expert in experts.experts]
        calls = network_calls(self.sampling.solver, self.timesteps(experts))
        return {
            # Experts share what the base had seen before them.
            "images_seen": records[0].inherited_images + sum(record.images_seen for record in records),
            "training_flops": records[0].inherited_flops + sum(record.training_flops for record in records),
            "sampling_flops_per_image": guided(experts, self.sampling.guidance).macs_per_image(calls),
            "parameters": experts.parameters,
            "parameters_per_step": experts.parameters_per_step(calls),
            "experts": len(records),
            "sampling_steps_per_expert": experts.steps_per_expert(calls),
            "prediction": records[0].spec.prediction,
            "training_seed": records[0].seed,
        }

    def conditions(self) -> dict[str, Any]:
        """Conditions that belong to every figure."""
        real, half = self.reference, half_of(self.evaluation.samples)
        return {
            "samples_per_seed": self.evaluation.samples,
            "sampling_seeds": list(self.evaluation.seeds),
            "spread": "standard deviation over sampling seeds",
            "extractor": self.extractor.label,
            "extractor_accuracy": self.extractor.holdout_accuracy,
            "features": self.extractor.features,
            "reference": real.description,
            "fid_half": f"FID of the first {half} samples of a seed, from the same reference",
            "neighbourhood": self.evaluation.neighbourhood,
            "sampling": self.sampling.model_dump(mode="json"),
            "sampling_precision": chosen_precision(self.sampling.precision, self.workspace.device),
            "singular_covariance": min(self.evaluation.samples, len(real.images)) < self.extractor.features,
        } | computed_on(self.workspace.device)


def write_scores(scoring: Scoring, experts: Ensemble, variant: str, more: Mapping[str, Any] | None = None) -> None:
    """Score a variant and write its figures, further figures, and its first samples as the stage's outputs."""
    workspace = scoring.workspace
    figures = scoring.figures(experts, variant) | dict(more or {})
    np.save(workspace.output(f"artifacts/samples/{variant}.npy"), scoring.shown(experts, variant))
    headline = {name: figures[f"{name}_mean"] for name in ("fid", "kid", "precision", "recall")}
    write_json(workspace.output(f"results/scores/{variant}.json"), headline)  # a metric for DVC
    workspace.metrics(f"results/fid/{variant}.json", figures)
