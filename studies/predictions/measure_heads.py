"""Three heads of one network in combinations that it was not trained for, each sampled and measured.

One half of the held-out images has settled the combinations by the heads' errors; the other half reports them.
"""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from unequal.comparison.measuring import curve
from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.predictions import head_weights
from unequal.errors import UserError
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.evaluation.loss_profile import combined_error, kept_lead
from unequal.evaluation.profiling import Draws, head_products
from unequal.evaluation.variant import Scoring
from unequal.models.denoiser import Denoiser, load_denoiser
from unequal.models.folder import load_heads
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.report.heads import read_wins
from unequal.runtime.chunks import Chunks
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.evaluation import Evaluation, Profile, Sampling
from unequal.settings.recipe import Selection
from unequal.settings.strict import StageSettings

COMBINATIONS = get_args(Selection)
#: Distinguishes the noise of these samples.
NOISE = 1


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


class Settings(StageSettings):
    seed: int
    profile: Profile
    sampling: Sampling
    evaluation: Evaluation


def products_of(run: Run, settings: Settings, data: PreparedData, denoiser: Denoiser, seed: int) -> np.ndarray:
    """Mean products of the heads' ε-errors by the draws of all endpoints of the block, [T, 3, 3]."""
    images, labels, profile = tensor_of(data.holdout_report), data.labels_of("holdout_report"), settings.profile
    draws = Draws.of(images, denoiser.schedule.timesteps, profile.images, seed, run.device, labels)
    chunks = Chunks(run.work / "products")
    products = head_products(denoiser, draws, profile.batch_size, run.runtime.progress, chunks).mean(1)
    # ε − ε̂ = (x̂0 − x0)·α/σ
    return np.asarray(products * denoiser.schedule.snr.cpu().numpy()[:, None, None])


@stage(Settings, shared=True)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Measure the combinations of an arm within a block."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    statistics = run.input(f"artifacts/statistics/{arm}/block_{block}.npz")
    folder = run.input(f"artifacts/models/{arm}/block_{block}")
    if (heads := load_heads(folder)) is None:
        raise UserError(f"{folder}: has one head, of which there is nothing to combine")
    denoiser, record = load_denoiser(folder, run.device)
    seed = torch_seed(settings.seed, block)
    products = products_of(run, settings, data, denoiser, seed)
    reported = {"seeds": (torch_seed(seed, NOISE),), "against": "holdout_report"}
    scoring = Scoring(run, settings.sampling, settings.evaluation.model_copy(update=reported), data, extractor)
    scores = {}
    for name in COMBINATIONS:
        weights = head_weights(name, heads.products.numpy())
        mixed = Denoiser(denoiser.net, denoiser.spec, torch.from_numpy(weights), denoiser.device)
        scores[name] = {
            "fid": scoring.scores(Ensemble([Expert(mixed, record)]), name)[0].fid,
            "loss_over_timesteps": float(combined_error(products, weights).mean()),
        }
    curves = [curve(one[:, None])["loss"] for one in np.diagonal(products, axis1=1, axis2=2).T]
    measured = {"combinations": scores, "curves": curves, "wins": won(statistics)}
    run.metrics(
        f"results/heads/{arm}/block_{block}.json",
        {"arm": arm, "block": block} | measured,
        {f"fid_{arm}_{block}_{name}": one["fid"] for name, one in scores.items()},
    )
