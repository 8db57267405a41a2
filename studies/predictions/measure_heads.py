"""Three heads of one network in combinations that it was not trained for, each sampled and measured.

One half of the held-out images selects a combination, by its heads' errors or its samples; the other half reports it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from pydantic import Field, PositiveInt

from unequal.comparison.measuring import curve
from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.predictions import HEADS, head_weights
from unequal.errors import UserError
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.sets import Against
from unequal.evaluation.variant import Scoring
from unequal.measures.loss_profile import combined_error, kept_lead
from unequal.measures.profiling import Draws, head_products
from unequal.models.denoiser import Denoiser, load_denoiser
from unequal.models.folder import load_heads
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.report.heads import read_wins
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.evaluation import Evaluation, Profile, Sampling
from unequal.settings.recipe import Selection
from unequal.settings.strict import StageSettings, Strict
from unequal.settings.values import Name
from unequal.timesteps.partition import Partition, TimestepRange, equal_log_snr
from unequal.workspace import Chunks, Workspace

#: Combinations that errors settle, and the one that samples do.
BY_ERRORS, BY_SAMPLES = get_args(Selection), "by_samples"
#: Of all of them, the one in which the head that errs least speaks: another speaks in its place, range by range.
LEAST = "profile"
#: The first half of the held-out images selects, the second reports.
HALVES: tuple[Against, Against] = ("holdout_choice", "holdout_report")


@dataclass(frozen=True)
class Measured:
    """Measuring of combinations: settings, images, and the seed of a block's draws."""

    sampling: Sampling
    evaluation: Evaluation
    profile: Profile
    data: PreparedData
    extractor: BuiltExtractor
    seed: int


class Trial:
    """A trained network of three heads, whose combinations are measured.

    Args:
        workspace: where what was sampled is kept, and on which device.
        folder: of the model.
        by: what combinations are measured by.

    Raises:
        UserError: a network with one head.
    """

    def __init__(self, workspace: Workspace, folder: Path, by: Measured) -> None:
        if (heads := load_heads(folder)) is None:
            raise UserError(f"{folder}: has one head, of which there is nothing to combine")
        self.workspace, self.by = workspace, by
        self.denoiser, self.record = load_denoiser(folder, workspace.device)
        self.schedule = self.denoiser.schedule
        #: Mean products of the heads' x0-errors on images that are chosen by, [T, 3, 3].
        self.products = heads.products.numpy()

    def combined(self, weights: np.ndarray) -> Ensemble:
        """The network with its heads combined by weights [T, 3]."""
        one = self.denoiser
        mixed = Denoiser(one.net, one.spec, torch.from_numpy(weights), one.device)
        return Ensemble([Expert(mixed, self.record)])

    def fid(self, weights: np.ndarray, name: str, samples: int, half: Against) -> float:
        """FID of samples by weights [T, 3] against a half of the held-out images, from that half's noise."""
        by = self.by
        noise = torch_seed(by.seed, HALVES.index(half))
        chosen = by.evaluation.model_copy(update={"samples": samples, "seeds": (noise,), "against": half})
        scoring = Scoring(self.workspace, by.sampling, chosen, by.data, by.extractor)
        return scoring.scores(self.combined(weights), name)[0].fid

    def swaps(self, ranges: Partition, samples: int) -> dict[str, Any]:
        """FID where the head that errs least speaks, and where in one range [ranges] one head [3] does in its place."""
        least, (half, _) = head_weights(LEAST, self.products), HALVES
        swap = [
            [self.fid(swapped(least, one, head), f"swap-{number}-{head}", samples, half) for head in range(len(HEADS))]
            for number, one in enumerate(ranges)
        ]
        return {"ranges": list(ranges), "least": self.fid(least, "least", samples, half), "fid": swap}

    def scores(self, combinations: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
        """FID and mean loss of ε of every combination [T, 3], of images that nothing was chosen by."""
        samples, (_, half) = self.by.evaluation.samples, HALVES
        return {
            name: {
                "fid": self.fid(weights, f"told-{name}", samples, half),
                "loss_over_timesteps": float(self.epsilon(combined_error(self.told_products, weights)).mean()),
            }
            for name, weights in combinations.items()
        }

    @property
    def curves(self) -> list[list[float]]:
        """Losses of ε of each head over the bins of all arms' curves, [3][bins], of the same images."""
        errors = self.epsilon(np.diagonal(self.told_products, axis1=1, axis2=2))
        return [curve(one[:, None])["loss"] for one in errors.T]

    @cached_property
    def told_products(self) -> np.ndarray:
        """Mean products of the heads' x0-errors by the draws of all endpoints of the block, [T, 3, 3]."""
        by, device = self.by, self.workspace.device
        images, labels = tensor_of(by.data.holdout_report), by.data.holdout_report_labels
        draws = Draws.of(images, self.schedule.timesteps, by.profile.images, by.seed, device, labels)
        kept = Chunks(self.workspace.work / "products")
        progress = self.workspace.runtime.progress
        return head_products(self.denoiser, draws, by.profile.batch_size, progress, kept).mean(1)

    def epsilon(self, errors: np.ndarray) -> np.ndarray:
        """Losses of ε from errors of x0, [T, …] both: ε − ε̂ = (x̂0 − x0)·α/σ."""
        snr = self.schedule.snr.cpu().numpy()
        return np.asarray(errors * snr.reshape(-1, *[1] * (errors.ndim - 1)))


def swapped(weights: np.ndarray, one: TimestepRange, head: int) -> np.ndarray:
    """Weights [T, 3] with one head alone inside a range."""
    found = weights.copy()
    found[one.slice] = np.eye(len(HEADS))[head]
    return found


def by_samples(ranges: Partition, fids: Sequence[Sequence[float]]) -> np.ndarray:
    """Weights [T, 3] of the head with the least FID in every range."""
    found = np.empty((ranges.timesteps, len(HEADS)))
    for one, row in zip(ranges, fids, strict=True):
        found = swapped(found, one, int(np.argmin(row)))
    return found


def won(file: Path) -> dict[str, Any]:
    """Read the statistics of a training.

    Returns:
        shares: of all its images, one a head.
        kept_lead: share of the timesteps that the same head leads in the first part and in the last.
        first, last: shares in each bin of these parts, [bins, 3]; none where no image came.
        starts: the first timestep of each bin.
    """
    wins = read_wins(file)
    total = wins.counts.sum((0, 1))
    first, last = wins.shares(0), wins.shares(-1)
    return {
        "shares": (total / total.sum()).tolist(),
        "kept_lead": kept_lead(first[wins.bins], last[wins.bins]),
        "starts": wins.starts.tolist(),
        "first": known(first),
        "last": known(last),
    }


def known(shares: np.ndarray) -> list[list[float] | None]:
    """Rows of shares as JSON has them, which knows no NaN."""
    return [None if np.isnan(row).any() else row.tolist() for row in shares]


class Combinations(Strict):
    """`study`: arms of three heads whose heads are combined in every way."""

    tried: tuple[Name, ...] = Field(min_length=1, description="arms of three heads")
    ranges: PositiveInt = Field(description="ranges of timesteps, equal in log-SNR, in which another head is used")
    samples: PositiveInt = Field(description="images behind each FID of such a range")


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile
    sampling: Sampling
    evaluation: Evaluation
    study: Combinations


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Measure the combinations of an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    statistics = run.input(f"artifacts/statistics/{arm}/block_{block}.npz")
    seed = torch_seed(settings.seed, block)
    by = Measured(settings.sampling, settings.evaluation, settings.profile, data, extractor, seed)
    trial = Trial(run, run.input(f"artifacts/models/{arm}/block_{block}"), by)
    ranges = equal_log_snr(trial.schedule, settings.study.ranges, "study.ranges")
    swaps = trial.swaps(ranges, settings.study.samples)
    combinations = {select: head_weights(select, trial.products) for select in BY_ERRORS}
    combinations[BY_SAMPLES] = by_samples(ranges, swaps["fid"])
    scores = trial.scores(combinations)
    run.metrics(
        f"results/heads/{arm}/block_{block}.json",
        {
            "arm": arm,
            "block": block,
            "combinations": scores,
            "swaps": swaps,
            "curves": trial.curves,
            "wins": won(statistics),
        },
        {f"fid_{arm}_{block}_{name}": one["fid"] for name, one in scores.items()},
    )


if __name__ == "__main__":
    main()
