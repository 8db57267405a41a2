"""Measure the optimal-denoiser loss, the least of any network, on the training images at every timestep."""

import numpy as np
import torch

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import noise_schedule
from unequal.evaluation.profiling import Draws, profile_optimal_loss
from unequal.pipeline.stage import Run, stage
from unequal.runtime.chunks import Chunks
from unequal.runtime.files import write_npz
from unequal.settings.evaluation import Profile, SampledFloor
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    seed: int
    schedule: Schedule
    profile: Profile
    horizontal_flips: bool = key("training.horizontal_flips")


@stage(Settings, shared=True)
def main(run: Run, settings: Settings) -> None:
    """Measure the optimal-denoiser loss."""
    data = PreparedData.open(run.input("artifacts/data"))
    schedule = noise_schedule(settings.schedule)
    chosen = settings.profile.floor
    images = tensor_of(data.train[: chosen if isinstance(chosen, int) else None])
    draws = Draws.of(images, schedule.timesteps, settings.profile.images, settings.seed, run.device)
    floor = np.zeros((schedule.timesteps, 0), np.float32)
    if chosen != "none":
        sampled = chosen.sampled if isinstance(chosen, SampledFloor) else None
        known = torch.cat([images, images.flip(-1)]) if settings.horizontal_flips else images
        floor = profile_optimal_loss(known, schedule, draws, Chunks(run.work), sampled, run.runtime.progress)
    write_npz(run.output("artifacts/profiles/floor.npz"), train=floor)
    mean = float(floor.mean()) if floor.size else None
    run.metrics("results/metrics/floor.json", {"mean_train": mean, "images": settings.profile.model_dump()["floor"]})
