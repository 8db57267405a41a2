"""Endpoints of a training: losses of held-out images and FID, on the same draws and from the same noise for all."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from unequal.comparison.settings import BINS
from unequal.data.prepared import PreparedData, tensor_of
from unequal.evaluation.fidelity import BuiltExtractor, half_of
from unequal.evaluation.loss_profile import Errors, endpoints
from unequal.evaluation.profiling import Draws, profile
from unequal.evaluation.variant import Scoring
from unequal.models.folder import load_record
from unequal.randomness import torch_seed
from unequal.report.drawing import log_bins
from unequal.report.results import data_condition
from unequal.runtime.chunks import Chunks
from unequal.runtime.files import rounded
from unequal.runtime.workspace import Workspace
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Profile, Sampling
from unequal.settings.strict import StageSettings

#: Further figures of samples, by their keys in a score.
SCORES = ("fid_half", "kid", "precision", "recall")
#: Costs in a score → their names here.
COSTS = {
    "images_seen": "images",
    "training_flops": "training_flops",
    "sampling_flops_per_image": "sampling_flops",
    "parameters": "parameters",
    "parameters_per_step": "parameters_per_step",
}
#: Conditions that all variants of a block must share to be comparable.
CONDITIONS = ("extractor", "features", "reference", "samples_per_seed", "sampling_seeds", "sampling", "device", "fp32")


class MeasuringSettings(StageSettings):
    """Keys of params.yaml that say how every training is measured."""

    seed: int
    profile: Profile
    sampling: Sampling
    evaluation: Evaluation


@dataclass(frozen=True)
class Measuring:
    """Measures all trainings of a block under equal conditions.

    Attributes:
        workspace: where chunks are stored, and on which device.
        settings: keys of params.yaml.
        data: prepared data; losses are measured on its held-out images.
        extractor: extractor of the features that FID compares.
        block: seeds draws and sampling noise, so that their effect on a figure averages out over blocks.
        half: half of the held-out images on which losses are measured: `choice` selects, `report` reports.
    """

    workspace: Workspace
    settings: MeasuringSettings
    data: PreparedData
    extractor: BuiltExtractor
    block: int
    half: Literal["report", "choice"] = "report"

    @classmethod
    def of(
        cls, run: Workspace, settings: MeasuringSettings, block: int, half: Literal["report", "choice"] = "report"
    ) -> Self:
        """Set up measuring with the data and the extractor that a stage reads."""
        data = PreparedData.open(run.input("artifacts/data"))
        return cls(run, settings, data, BuiltExtractor.load(run.input("artifacts/extractor")), block, half)

    def figures(self, folder: Path, name: str) -> dict[str, Any]:
        """Figures of a model or a set of experts; `name` is unique within the workspace."""
        began = time.perf_counter()
        experts, runtime = Ensemble.load(folder, self.workspace.device), self.workspace.runtime
        profiling, sampling = self.settings.profile, self.settings.sampling
        calls = profiling.calls(experts.schedule.timesteps) + sampling.calls(self.settings.evaluation.images)
        profiled, sampled = (
            experts.accelerated(section.precision, runtime.channels_last, runtime.compile, calls)
            for section in (profiling, sampling)
        )
        errors = self.errors(profiled, name)
        scores = self.scoring.figures(sampled, name)
        losses = {name: one.of(errors)[0] for name, one in endpoints(experts.schedule).items()}
        measured = losses | {"fid": scores["fid_mean"]}
        return {
            "endpoints": measured,
            "scores": {one: scores[f"{one}_mean"] for one in SCORES if f"{one}_mean" in scores},
            "costs": {ours: scores[its] for its, ours in COSTS.items()}
            | {"measuring_seconds": time.perf_counter() - began},
            "curve": curve(errors.epsilon),
            "conditions": self.conditions(scores),
        }

    def samples(self, folder: Path, name: str) -> np.ndarray:
        """First samples of those that a model or a set of experts was scored by, uint8 [n, C, H, W]."""
        return self.scoring.shown(Ensemble.load(folder, self.workspace.device), name)

    def path(self, half: Path, end: Path, name: str) -> dict[str, Any]:
        """Figures of the model at the end of a training, with its endpoints at half of the images."""
        endpoints_at_half = self.figures(half, f"{name}_half")["endpoints"]
        return self.figures(end, name) | {"half": endpoints_at_half}

    def errors(self, experts: Ensemble, name: str) -> Errors:
        """Errors on held-out draws."""
        chosen, data = self.settings.profile, self.data
        if self.half == "choice":
            images, labels = tensor_of(data.holdout_choice), data.labels_of("holdout_choice")
        else:
            images, labels = tensor_of(data.holdout_report), data.labels_of("holdout_report")
        timesteps, device = experts.schedule.timesteps, self.workspace.device
        draws = Draws.of(images, timesteps, chosen.images, torch_seed(self.settings.seed, self.block), device, labels)
        chunks = Chunks(self.workspace.work / f"losses-{name.replace('/', '_')}")
        return profile(experts, draws, chosen.batch_size, self.workspace.runtime.progress, chunks)

    @property
    def scoring(self) -> Scoring:
        """Scoring of samples, with the block's own sampling seeds."""
        chosen = self.settings.evaluation
        own = chosen.model_copy(update={"seeds": tuple(torch_seed(seed, self.block) for seed in chosen.seeds)})
        return Scoring(self.workspace, self.settings.sampling, own, self.data, self.extractor)

    def conditions(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        """Conditions of the figures, equal for all variants that are compared."""
        return {
            "data": data_condition(self.data.facts),
            "data_sha256": self.data.facts["sha256"],
            "draws_per_timestep": self.settings.profile.images,
            "held_out_half": self.half,
            **{name: scores[name] for name in CONDITIONS},
        }


def curve(losses: np.ndarray) -> dict[str, list[float]]:
    """Mean loss in bins of timesteps, from losses [T, n]: T, each bin's first timestep, and its loss."""
    first = log_bins(len(losses), BINS)[:-1]
    means = np.add.reduceat(losses.mean(1, dtype=float), first) / np.diff([*first, len(losses)])
    return {"timesteps": [len(losses)], "first": first.tolist(), "loss": list(map(rounded, means))}


def of_half_the_samples(measuring: Measuring) -> Measuring:
    """Measuring with half of the samples, since sampling dominates the cost of measuring.

    The noise is that of the first half of the final model's samples, whose `fid_half` is therefore comparable.
    """
    chosen = measuring.settings.evaluation
    samples = half_of(chosen.samples)
    fewer = chosen.model_copy(update={"samples": samples, "kid_subset": min(samples, chosen.kid_subset)})
    return replace(measuring, settings=measuring.settings.model_copy(update={"evaluation": fewer}))


def point(folder: Path, figures: Mapping[str, Any], fid: float) -> dict[str, Any]:
    """Point of a path: images seen, endpoints with the FID of half of the samples, and losses over timesteps."""
    losses = figures["curve"]["loss"]
    return {"images": load_record(folder).images_seen} | figures["endpoints"] | {"fid": fid, "curve": losses}


def along(measuring: Measuring, snapshots: Sequence[Path], end: Path, name: str) -> dict[str, Any]:
    """Figures of a training's final model, with its `path` over snapshots; `name` is unique within the workspace."""
    figures, half = measuring.figures(end, name), of_half_the_samples(measuring)
    seconds, path = figures["costs"]["measuring_seconds"], []
    for folder in snapshots:
        there = half.figures(folder, f"{name}_{folder.name}")
        path.append(point(folder, there, there["endpoints"]["fid"]))
        seconds += there["costs"]["measuring_seconds"]
    path.append(point(end, figures, figures["scores"]["fid_half"]))
    return figures | {"costs": figures["costs"] | {"measuring_seconds": seconds}, "path": path}


def pilot_along(measuring: Measuring, half: Path, end: Path, name: str, snapshots: int) -> dict[str, Any]:
    """Figures of a pilot's training at half of its images and at the end, each from half of the samples.

    Measuring seconds are estimated for a training with `snapshots` snapshots, whose final model takes all samples.
    """
    cheap = of_half_the_samples(measuring)
    figures, before = cheap.figures(end, name), cheap.figures(half, f"{name}_half")
    path = [point(at, one, one["endpoints"]["fid"]) for at, one in ((half, before), (end, figures))]
    seconds = (snapshots + 2) * figures["costs"]["measuring_seconds"]
    costs = figures["costs"] | {"measuring_seconds": seconds}
    return figures | {"costs": costs, "half": before["endpoints"], "path": path}
