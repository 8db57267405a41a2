"""Profiles with known losses, as what was measured and as a file."""

from pathlib import Path

import numpy as np

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.profiler.document import Betas, Losses, Shifted, Timesteps
from unequal.profiler.suggestion import MeasuredProfile

LINEAR = NoiseSchedule.linear(1000)
FLOW = Flow(1000, shift=3.0)


def gaussian(schedule: NoiseSchedule) -> np.ndarray:
    """Losses of ε by the best denoiser of N(0, I), SNR/(1 + SNR), [T]."""
    return (schedule.snr / (1 + schedule.snr)).numpy()


def measured(schedule: NoiseSchedule, losses: np.ndarray, prediction: Prediction = "epsilon") -> MeasuredProfile:
    """Losses [T] whose draws do not scatter, measured at every timestep."""
    return MeasuredProfile(schedule, prediction, losses, losses**2, len(losses))


def document(schedule: NoiseSchedule = LINEAR, points: int = 40) -> Timesteps:
    """A file's content: losses of N(0, I) with some scatter, at some timesteps."""
    steps = np.linspace(0, schedule.timesteps - 1, points).round().astype(int)
    scatter = np.random.default_rng(0).gamma(4, 1 / 4, size=(points, 16))
    flow = isinstance(schedule, Flow)
    return Timesteps(
        model="some/model",
        family="UNet2DModel",
        prediction="velocity" if flow else "epsilon",
        schedule=Shifted(timesteps=schedule.timesteps, shift=schedule.shift)
        if isinstance(schedule, Flow)
        else Betas(betas=tuple(schedule.betas.tolist())),
        seed=0,
        images={"held_out": 8},
        shape=(1, 8, 8),
        draws=16,
        timesteps=tuple(steps.tolist()),
        losses={"held_out": Losses.of(gaussian(schedule)[steps][:, None] * scatter)},
    )


def written(folder: Path, schedule: NoiseSchedule = LINEAR, points: int = 40) -> Path:
    """The file."""
    path = folder / "timesteps.json"
    document(schedule, points).write(path)
    return path
