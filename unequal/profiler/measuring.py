"""Errors of ε of any model at some timesteps, on the draws by which the pipeline profiles its own."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from unequal.data.pixels import to_model_range
from unequal.diffusion.predictions import add_noise, squared_error, to_epsilon, to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import nearest
from unequal.measures.profiling import Draws, noise_at
from unequal.profiler.images import Kept
from unequal.profiler.model import Model
from unequal.workspace.chunks import Chunks, ranges
from unequal.workspace.progress import image_bar


def spread(schedule: NoiseSchedule, count: int) -> tuple[int, ...]:
    """K timesteps from the first to the last, rising; all of them where K is T or more.

    They are equally far from each other in the mean of t/T and of the share of log-SNR that lies behind: where log-SNR
    falls fast, at the data end, losses change as fast. Where two snap to the same timestep, one is left.
    """
    timesteps, log_snr = schedule.timesteps, schedule.snr.log().numpy()
    if count >= timesteps:
        return tuple(range(timesteps))
    coordinate = np.linspace(0, 1, timesteps) + (log_snr[0] - log_snr) / (log_snr[0] - log_snr[-1])
    return tuple(sorted({nearest(coordinate, one) for one in np.linspace(0, 2, count)}))


@dataclass(frozen=True)
class Points:
    """Where models are asked: the same images and noise for all that are told so.

    Attributes:
        images: what networks see, n rows.
        conditions: what they are told of them, by name.
        timesteps: that are measured, [K].
        draws: at each of them.
        seed: of images and noise.
        schedule: of the models.
    """

    images: Kept
    conditions: Mapping[str, Kept]
    timesteps: tuple[int, ...]
    draws: int
    seed: int
    schedule: NoiseSchedule

    @cached_property
    def index(self) -> np.ndarray:
        """The image of every draw, [K, draws]: that of the pipeline's own profile of as many images."""
        like = torch.empty(len(self.images), 0)
        whole = Draws.of(like, self.schedule.timesteps, self.draws, self.seed, torch.device("cpu")).index
        return whole[list(self.timesteps)]

    def losses(
        self, model: Model, batch_size: int, device: torch.device, chunks: Chunks, progress: str | None = None
    ) -> np.ndarray:
        """Mean squared errors of ε at every draw, [K, draws] float32; `chunks` are what an earlier attempt has left."""
        tables = self.schedule.to(device)
        shares = ranges(self.index.size, batch_size)
        with image_bar(self.index.size, progress is not None) as bar:
            bar.set_description(progress)

            def measured(share: range) -> np.ndarray:
                found = []
                for start in range(share.start, share.stop, batch_size):
                    flat = np.arange(start, min(start + batch_size, share.stop))
                    found.append(self.errors(model, flat, tables, device))
                    bar.update(len(flat))
                return torch.cat(found).cpu().numpy()

            parts = chunks.all({str(share.start): partial(measured, share) for share in shares})
        return np.concatenate(parts).reshape(self.index.shape)

    @torch.no_grad()
    def errors(self, model: Model, flat: np.ndarray, tables: NoiseSchedule, device: torch.device) -> Tensor:
        """Those of some draws, counted through, [B]."""
        index = self.index.reshape(-1)[flat]
        x0 = to_model_range(self.images.rows(index).to(device))
        t = torch.tensor(self.timesteps, device=device)[torch.from_numpy(flat // self.draws).to(device)]
        epsilon = self.noise(flat).to(device)
        levels = tables.at(t, x0)
        x_t = add_noise(x0, epsilon, *levels)
        told = {name: one.rows(index).to(device) for name, one in self.conditions.items()}
        answer = model.answer(x_t, tables.told(t), told).to(x_t.dtype)
        return squared_error(epsilon, epsilon_of(model.trained.prediction, answer, x_t, *levels))

    def noise(self, flat: np.ndarray) -> Tensor:
        """ε of some draws, counted through, [B, …]: timestep by timestep from its own generator."""
        rows, columns = np.divmod(flat, self.draws)
        shape = (self.draws, *self.images.shape)
        parts = []
        for row in np.unique(rows):
            whole = noise_at(self.timesteps[row], shape, self.seed, len(self.images))
            parts.append(whole[torch.from_numpy(columns[rows == row])])
        return torch.cat(parts)


def epsilon_of(prediction: str, answer: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The noise that a network's answer amounts to."""
    if prediction == "epsilon":
        return answer
    return to_epsilon(to_x0(prediction, answer, x_t, alpha, sigma), x_t, alpha, sigma)
