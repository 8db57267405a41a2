"""Samples of a base by ways of taking few steps, from the same noise, scored by the same features."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from studies.few_steps.params import Sweep, Way
from unequal.comparison.measuring import Measuring, MeasuringSettings
from unequal.data.prepared import PreparedData
from unequal.diffusion.solvers import network_calls
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.variant import Scoring
from unequal.randomness import torch_seed
from unequal.sampling.ensemble import Ensemble
from unequal.workspace import Workspace

#: What is kept of a way's scores → how it is called in them.
SCORES = {"fid": "fid_mean", "fid_half": "fid_half_mean", "kid": "kid_mean"} | {
    name: f"{name}_mean" for name in ("precision", "recall")
}
#: Tells the noise of the control's second samples from that of all others.
OTHER_NOISE = 1


class ScoringSettings(MeasuringSettings):
    """Keys of params.yaml by which ways are scored."""

    sweep: Sweep


@dataclass(frozen=True)
class FewSteps:
    """The base of a block, sampled by a few calls of its network.

    Attributes:
        workspace: where samples are kept, and on which device.
        settings: keys of params.yaml.
        data: held-out images are those that samples are compared with; spacing goes by the losses of one half of them.
        extractor: of the features that FID compares.
        block: has sampling noise of its own.
        model: folder of the base.
    """

    workspace: Workspace
    settings: ScoringSettings
    data: PreparedData
    extractor: BuiltExtractor
    block: int
    model: Path

    @cached_property
    def base(self) -> Ensemble:
        """The model."""
        return Ensemble.load(self.model, self.workspace.device)

    @cached_property
    def measuring(self) -> Measuring:
        """Settings by which all ways are measured."""
        return Measuring(self.workspace, self.settings, self.data, self.extractor, self.block, half="choice")

    @cached_property
    def losses(self) -> np.ndarray:
        """The base's mean losses of ε, [T]."""
        return np.asarray(self.measuring.errors(self.base, "base").epsilon.mean(1, dtype=float))

    def scoring(self, way: Way, calls: int, *noise: int) -> Scoring:
        """How samples by a way are scored; those of other `noise` are other samples."""
        common, sampling = self.measuring.scoring, way.sampling(self.settings.sampling, calls)
        seeds = tuple(torch_seed(seed, *noise) for seed in common.evaluation.seeds) if noise else None
        own = common.evaluation.model_copy(update={"seeds": seeds}) if seeds else common.evaluation
        return replace(common, sampling=sampling, evaluation=own, losses=self.losses)

    def figures(self, way: Way, calls: int, *noise: int) -> dict[str, Any]:
        """A way's scores, and where its steps lie: where several snapped to one timestep, it takes fewer calls."""
        scoring = self.scoring(way, calls, *noise)
        found = scoring.figures(self.base, "_".join([way.name, str(calls), *map(str, noise)]))
        timesteps = scoring.timesteps(self.base)
        scores = {ours: found[its] for ours, its in SCORES.items()}
        return scores | {"calls": len(network_calls(way.solver, timesteps)), "timesteps": timesteps}

    def all(self, calls: int) -> dict[str, dict[str, Any]]:
        """Every way's figures, and those of the control from other noise."""
        sweep = self.settings.sweep
        scores = {name: self.figures(way, calls) for name, way in sweep.ways.items()}
        return scores | {sweep.repeated: self.figures(sweep.control, calls, OTHER_NOISE)}

    @property
    def conditions(self) -> Mapping[str, Any]:
        """Conditions of the figures, the same for all that are compared."""
        scoring = self.measuring.scoring
        facts = scoring.conditions() | {"sampling": None}
        conditions = self.measuring.conditions(facts)
        record = self.base.experts[0].record
        return conditions | {"parameters": self.base.parameters, "images": record.images_seen}
