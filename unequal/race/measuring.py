"""Scores of a race: half of the held-out images select, the other half confirm; the block seeds the noise."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.variant import Scoring
from unequal.race.plan import CONFIRM, FURTHER
from unequal.randomness import torch_seed
from unequal.runtime.workspace import Workspace
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Evaluation, Sampling
from unequal.settings.strict import StageSettings, key

#: Scores that are shown next to FID.
SHOWN = ("kid", "precision", "recall", "fid_half")
#: Costs of a candidate.
COSTS = ("images_seen", "training_flops", "sampling_flops_per_image", "parameters", "parameters_per_step")
#: Conditions that all trainings of a race share.
CONDITIONS = ("extractor", "reference", "samples_per_seed", "sampling_seeds", "device")


class ScoreSettings(StageSettings):
    """Keys of params.yaml that say how trainings are scored."""

    seed: int
    evaluation: Evaluation
    samplings: dict[str, Sampling] = key("race.samplings")


def reference(data: PreparedData, evaluation: Evaluation, features: int, rung: str) -> str:
    """Name of the real images that a rung is scored against: half of the held-out images, if that is large enough."""
    half = len(data.holdout) // 2
    enough = max(0 if evaluation.allow_singular else features, evaluation.kid_subset, evaluation.neighbourhood + 1)
    if evaluation.against != "holdout" or half < enough:
        return evaluation.against
    return "holdout_report" if rung in (CONFIRM, FURTHER) else "holdout_choice"


class Scorer:
    """Scorer of a rung's models.

    Args:
        workspace: where chunks are stored, and on which device.
        settings: keys of params.yaml.
        data: prepared data, with the held-out images that samples are compared with.
        extractor: extractor of the features that FID compares.
        rung: name of the rung, which decides the half of the held-out images.
    """

    def __init__(
        self, workspace: Workspace, settings: ScoreSettings, data: PreparedData, extractor: BuiltExtractor, rung: str
    ) -> None:
        self.workspace, self.settings, self.data, self.extractor = workspace, settings, data, extractor
        self.against = reference(data, settings.evaluation, extractor.features, rung)

    def scoring(self, sampling: Sampling, block: int) -> Scoring:
        """Scoring of a block's samples, with the block's own sampling seeds."""
        chosen = self.settings.evaluation
        seeds = tuple(torch_seed(seed, self.settings.seed, block) for seed in chosen.seeds)
        own = chosen.model_copy(update={"seeds": seeds, "against": self.against})
        return Scoring(self.workspace, sampling, own, self.data, self.extractor)

    def scores(self, folder: Path, block: int, sampling: str) -> tuple[dict[str, Any], np.ndarray]:
        """Figures of a model by a way of sampling, and its first images, uint8 [n, C, H, W]."""
        chosen, runtime, name = self.settings.samplings[sampling], self.workspace.runtime, f"{sampling}_{folder.name}"
        calls = chosen.calls(self.settings.evaluation.images)
        experts = Ensemble.load(folder, self.workspace.device)
        experts = experts.accelerated(chosen.precision, runtime.channels_last, runtime.compile, calls)
        scoring = self.scoring(chosen, block)
        figures = scoring.figures(experts, name)
        return summary(figures), scoring.shown(experts, name)


def summary(figures: Mapping[str, Any]) -> dict[str, Any]:
    """FID and the other scores that are shown, with costs and conditions."""
    scores = {one: figures[f"{one}_mean"] for one in SHOWN if f"{one}_mean" in figures}
    costs = {one: figures[one] for one in COSTS if one in figures}
    return {"fid": figures["fid_mean"]} | scores | costs | {"conditions": {one: figures[one] for one in CONDITIONS}}
