"""Draws at some timesteps: those that the pipeline's own profile makes there, whatever model is asked."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import nearest
from unequal.measures.profiling import Draws, noise_at


class Share(NamedTuple):
    """A batch of draws: numbers of images [B], their timesteps [B], and which draw of its timestep each is, [B]."""

    images: np.ndarray
    timesteps: np.ndarray
    draws: np.ndarray


@dataclass(frozen=True)
class Strata:
    """n draws at each of K timesteps.

    Attributes:
        images: how many there are, N.
        index: images drawn, by number, [K, n].
        timesteps: rising, [K].
        seed: of images and noise.
    """

    images: int
    index: np.ndarray
    timesteps: np.ndarray
    seed: int

    @classmethod
    def of(cls, images: int, timesteps: np.ndarray, total: int, count: int, seed: int) -> "Strata":
        """n = `count` draws at some of T = `total` timesteps: a timestep's are the same whichever others are asked."""
        every = Draws.of(torch.empty(images, 0), total, count, seed, torch.device("cpu"))
        return cls(images, every.index[timesteps], timesteps, seed)

    @property
    def drawn(self) -> np.ndarray:
        """Numbers of all images that are drawn at all, rising."""
        return np.unique(self.index)

    def batches(self, size: int, share: range) -> Iterator[Share]:
        """The draws of a share of all K·n, timestep by timestep, in batches."""
        count = self.index.shape[1]
        for start in range(share.start, share.stop, size):
            flat = np.arange(start, min(start + size, share.stop))
            yield Share(self.index.reshape(-1)[flat], self.timesteps[flat // count], flat % count)

    def noise(self, one: Share, shape: tuple[int, ...]) -> Tensor:
        """ε of a batch, [B, *shape], on the CPU: every timestep's from a generator of its own."""
        whole = (self.index.shape[1], *shape)
        parts = [
            noise_at(t, whole, self.seed, self.images)[[int(draw) for _, draw in group]]
            for t, group in groupby(zip(one.timesteps.tolist(), one.draws, strict=True), key=lambda pair: pair[0])
        ]
        return torch.cat(parts)


def spread(schedule: NoiseSchedule, count: int) -> np.ndarray:
    """At most `count` timesteps from the first to the last, all of them for T or more, [K] int64, rising.

    They are equally far from each other in t/T and the share of log-SNR that lies behind, taken together: where log-SNR
    falls fast, at the data end, losses change as fast. Where two would be the same timestep, one is left.
    """
    if count >= schedule.timesteps:
        return np.arange(schedule.timesteps)
    log_snr = schedule.snr.log().numpy()
    coordinate = np.linspace(0, 1, len(log_snr)) + (log_snr[0] - log_snr) / (log_snr[0] - log_snr[-1])
    return np.unique([nearest(coordinate, one) for one in np.linspace(0, 2, count)])
