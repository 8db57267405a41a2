"""Measure a model's loss at every timestep, on training and held-out images."""

import numpy as np

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.files import write_csv, write_npz
from unequal.loss_profile import LossProfile
from unequal.models.denoiser import load_denoiser
from unequal.pipeline.stage import Run, stage
from unequal.profiling import Draws, profile
from unequal.settings.profile import Profile
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile


@stage(Settings)
def main(run: Run, settings: Settings, model: str) -> None:
    """Profile the loss of a model."""
    data = PreparedData.open(run.input("artifacts/data"))
    denoiser, record = load_denoiser(run.input(f"artifacts/models/{model}"), run.device)
    chosen = settings.profile
    losses = {}
    for split, images in (("train", chosen.profiled(data.train)), ("holdout", data.holdout)):
        draws = Draws.of(tensor_of(images), record.timesteps, chosen.images, settings.seed, run.device)
        losses[split] = profile(denoiser, draws, chosen.batch_size, run.runtime.progress)
    write_npz(run.output(f"artifacts/profiles/{model}.npz"), **losses)
    means = {split: LossProfile.of(table) for split, table in losses.items()}
    table = {f"loss_{split}": mean.mean for split, mean in means.items()}
    table |= {f"stderr_{split}": mean.stderr for split, mean in means.items()}
    rows = [
        {"timestep": t} | {name: float(column[t]) for name, column in table.items()} for t in range(record.timesteps)
    ]
    write_csv(run.output(f"results/profiles/{model}.csv"), rows)
    run.metrics(f"results/metrics/profile_{model}.json", summary(means) | {"images_per_timestep": chosen.images})


def summary(means: dict[str, LossProfile]) -> dict[str, float]:
    """Mean loss of each split, and how unequal timesteps are."""
    train = means["train"].mean
    return {f"mean_{split}": float(mean.mean.mean()) for split, mean in means.items()} | {
        "largest_over_smallest": float(np.max(train) / np.min(train))
    }


if __name__ == "__main__":
    main()
