"""Endpoints of a training: losses of held-out images and FID, on the same draws and from the same noise for a seed."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unequal.data.prepared import PreparedData, tensor_of
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.loss_profile import Errors, endpoints
from unequal.evaluation.profiling import Draws, profile
from unequal.evaluation.variant import Scoring
from unequal.randomness import torch_seed
from unequal.runtime.chunks import Chunks
from unequal.runtime.workspace import Workspace
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Profile, Sampling

#: Half of the held-out images: the one by which rates are chosen, or the one that is reported.
Half = Literal["choice", "report"]
#: Further figures of samples, by their keys in a score.
SCORES = ("fid_half", "kid", "precision", "recall")
COSTS = ("images_seen", "training_flops", "sampling_flops_per_image", "parameters", "parameters_per_step")
#: Conditions that all trainings of an experiment share.
CONDITIONS = ("extractor", "features", "reference", "samples_per_seed", "device", "fp32")


@dataclass(frozen=True)
class Measuring:
    """Measures trainings of a seed under equal conditions.

    Attributes:
        seed: of the draws of the losses, with the training's.
        trained_by: seed of the training, so that the effect of noise on a figure averages out over seeds.
    """

    workspace: Workspace
    data: PreparedData
    extractor: BuiltExtractor
    profile: Profile
    sampling: Sampling
    evaluation: Evaluation
    seed: int
    trained_by: int
    half: Half

    def figures(self, folder: Path, name: str) -> tuple[dict[str, Any], np.ndarray]:
        """Figures of a model or a set of experts, and some of its samples, uint8 [n, C, H, W]."""
        began, runtime = time.perf_counter(), self.workspace.runtime
        experts = Ensemble.load(folder, self.workspace.device)
        calls = self.profile.calls(experts.schedule.timesteps) + self.sampling.calls(self.evaluation.images)
        profiled, sampled = (
            experts.accelerated(section.precision, runtime.channels_last, runtime.compile, calls)
            for section in (self.profile, self.sampling)
        )
        errors = self.errors(profiled, name)
        # Sampling seeds of the training's own.
        seeds = tuple(torch_seed(seed, self.trained_by) for seed in self.evaluation.seeds)
        own = self.evaluation.model_copy(update={"seeds": seeds})
        scoring = Scoring(self.workspace, self.sampling, own, self.data, self.extractor)
        scores = scoring.figures(sampled, name)
        losses = {endpoint: one.of(errors)[0] for endpoint, one in endpoints(experts.schedule).items()}
        figures = {
            "endpoints": losses | {"fid": scores["fid_mean"]},
            "scores": {one: scores[f"{one}_mean"] for one in SCORES if f"{one}_mean" in scores},
            "costs": {cost: scores[cost] for cost in COSTS} | {"measuring_seconds": time.perf_counter() - began},
            "conditions": {
                "data_sha256": self.data.facts["sha256"],
                "draws_per_timestep": self.profile.images,
                **{condition: scores[condition] for condition in CONDITIONS},
            },
        }
        return figures, scoring.shown(sampled, name)

    def errors(self, experts: Ensemble, name: str) -> Errors:
        """Errors on held-out draws."""
        images = self.data.holdout_choice if self.half == "choice" else self.data.holdout_report
        labels = self.data.labels_of(f"holdout_{self.half}")
        timesteps, device = experts.schedule.timesteps, self.workspace.device
        seed = torch_seed(self.seed, self.trained_by)
        draws = Draws.of(tensor_of(images), timesteps, self.profile.images, seed, device, labels)
        chunks = Chunks(self.workspace.work / f"losses-{name}")
        return profile(experts, draws, self.profile.batch_size, self.workspace.runtime.progress, chunks)
