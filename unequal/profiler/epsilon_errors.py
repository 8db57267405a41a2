"""Errors of ε of a network at the draws of a profile, in chunks that survive an interruption.

The draws at a timestep are those of the pipeline's own profile, whatever model answers them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from unequal.diffusion.predictions import add_noise, squared_error
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import nearest
from unequal.errors import UserError, first_line
from unequal.evaluation.profiling import Draws, profile_noise
from unequal.models.denoiser import Denoiser
from unequal.profiler.families.family import LABEL, LATENT, Family, ModelInput
from unequal.profiler.shard_cache import Rows, ShardCache
from unequal.runtime.chunks import Chunks, Maker
from unequal.runtime.devices import ranges


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
        count = self.index.shape[1]
        for start in range(share.start, share.stop, size):
            flat = np.arange(start, min(start + size, share.stop))
            yield Share(self.index.reshape(-1)[flat], self.timesteps[flat // count], flat % count)

    def noise(self, one: Share, shape: tuple[int, ...]) -> Tensor:
        """ε of a batch, [B, *shape], on the CPU."""
        return profile_noise(shape, one.timesteps, one.draws, self.seed, self.images)


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


@dataclass(frozen=True)
class Split:
    """A split: draws, encoded images, and conditions of the network.

    Attributes:
        latents: rows of LATENT.
        captions: encoded captions of all drawn images; None: the network takes none.
        labels: class of each image, [N]; None: the network takes none.
    """

    strata: Strata
    latents: ShardCache
    captions: ShardCache | None = None
    labels: Tensor | None = None

    def rows(self, one: Share, device: torch.device) -> tuple[Tensor, Rows]:
        """Clean images [B, C, H, W] of a batch, and their conditions."""
        conditions = {} if self.captions is None else self.captions.rows(one.images)
        if self.labels is not None:
            conditions[LABEL] = self.labels[torch.from_numpy(one.images)]
        x0 = self.latents.rows(one.images)[LATENT]
        return x0.to(device), {name: rows.to(device) for name, rows in conditions.items()}


class EpsilonPredictor:
    """A pipeline's network on a device, whose predictions are converted to ε."""

    def __init__(self, family: Family, net: nn.Module, device: torch.device) -> None:
        def predict(x_t: Tensor, timestep: Tensor, **conditions: Tensor) -> Tensor:
            answer = family.predict(net, ModelInput(x_t, timestep, conditions))
            if answer.shape != x_t.shape:
                raise family.refusal(f"predicts {list(answer.shape[1:])} for images of {list(x_t.shape[1:])}")
            return answer

        self.family, self.device = family, device
        self.denoiser = Denoiser(predict, family.schedule.tables(), family.prediction, device=device)

    @torch.no_grad()
    def errors(self, split: Split, one: Share) -> Tensor:
        """Squared errors of ε of a batch, mean over values, [B]."""
        x0, conditions = split.rows(one, self.device)
        epsilon = split.strata.noise(one, tuple(x0.shape[1:])).to(self.device)
        t = torch.from_numpy(one.timesteps).to(self.device)
        x_t = add_noise(x0, epsilon, *self.denoiser.schedule.at(t, x0))
        return squared_error(epsilon, self.denoiser.given(**conditions).epsilon(x_t, t))


def losses(
    predictor: Callable[[], EpsilonPredictor], split: Split, batch_size: int, chunks: Chunks, bar: "tqdm[Any]"
) -> np.ndarray:
    """Losses of all draws, [K, n] float32; the network is loaded only if a chunk is missing.

    Raises:
        UserError: the network refuses such images, runs out of memory, predicts NaN or infinite values, or has no error
            at a timestep, where the schedule leaves no signal that float32 resolves.
    """
    shares = list(ranges(split.strata.index.size, batch_size))
    present = sum(len(share) for share in shares if chunks.folder and chunks.file(str(share.start)).exists())
    bar.update(present)

    def measured(share: range) -> np.ndarray:
        model, errors = predictor(), []
        for one in split.strata.batches(batch_size, share):
            errors.append(errors_of_batch(model, split, one))
            bar.update(len(one.timesteps))
        found = torch.cat(errors).float().cpu().numpy()
        if len(wrong := np.flatnonzero(~np.isfinite(found))):
            t = split.strata.timesteps[(share.start + wrong[0]) // split.strata.index.shape[1]]
            raise UserError(f"the network predicts NaN or infinite values at t = {t}; --precision fp32 may help")
        return found

    makers = {str(share.start): Maker((len(share),), partial(measured, share)) for share in shares}
    whole = np.concatenate(chunks.all(makers))
    table = whole.reshape(split.strata.index.shape)
    if len(none := np.flatnonzero(~table.any(1))):
        raise UserError(f"all errors of ε at t = {split.strata.timesteps[none[0]]} are 0; allowed: errors above 0")
    return table


def errors_of_batch(model: EpsilonPredictor, split: Split, one: Share) -> Tensor:
    """Errors of a batch. Raises UserError in one line if the network fails."""
    try:
        return model.errors(split, one)
    except torch.cuda.OutOfMemoryError:
        raise UserError(
            f"--batch-size {len(one.timesteps)}: too much for the GPU's memory; a smaller one needs less, "
            "and so does --precision bf16"
        ) from None
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise model.family.refusal(f"refuses such images: {first_line(error)}") from None
