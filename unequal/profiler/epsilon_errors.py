"""Errors of ε of a network at the draws of a profile; what was encoded and measured survives an interruption.

The draws at a timestep are those of the pipeline's own profile, whatever model answers them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from tqdm import tqdm

from unequal.diffusion.predictions import add_noise, squared_error
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import nearest
from unequal.errors import UserError, first_line
from unequal.evaluation.profiling import Draws, profile_noise
from unequal.models.denoiser import Denoiser
from unequal.profiler.family import LABEL, LATENT, Family, Rows
from unequal.runtime.chunks import Chunks, Maker
from unequal.runtime.devices import ranges
from unequal.runtime.progress import tracked
from unequal.runtime.tensor_files import Saved, saved_or_none, write_saved

#: Images of a file of the cache, and the name of their numbers in it.
SHARD, IMAGES = 32, "images"


class ShardCache:
    """Encoded images or captions by number in a folder, SHARD a file; an earlier attempt's files are used again."""

    def __init__(self, folder: Path, numbers: np.ndarray) -> None:
        self.folder, self.numbers = folder, numbers
        self.parts: list[list[int]] = [numbers[i : i + SHARD].tolist() for i in range(0, len(numbers), SHARD)]
        self.opened: dict[int, safe_open] = {}

    def file(self, shard: int) -> Path:
        return self.folder / f"{shard}.safetensors"

    def missing(self) -> list[int]:
        """Numbers of the files that are missing, or were altered since they were written."""

        def is_whole(shard: int) -> bool:
            saved, images = saved_or_none(self.file(shard)), self.parts[shard]
            if saved is None or saved.facts != {IMAGES: images}:
                return False
            return all(len(tensor) == len(images) for tensor in saved.tensors.values())

        return [shard for shard in range(len(self.parts)) if not is_whole(shard)]

    def make(self, missing: Sequence[int], encode: Callable[[Sequence[int]], Rows], title: str) -> None:
        """Encode and write the missing files. Raises UserError if a row is NaN or infinite."""
        for shard in tracked(missing, f"parts of {SHARD}", title):
            rows = encode(self.parts[shard])
            if wrong := [name for name, tensor in rows.items() if not bool(tensor.isfinite().all())]:
                raise UserError(
                    f"{title}: '{wrong[0]}' holds NaN or infinite values; the pipeline's encoder is unsound"
                )
            write_saved(self.file(shard), Saved(rows, {IMAGES: self.parts[shard]}))

    def rows(self, numbers: np.ndarray) -> Rows:
        """Rows of a batch of images by their numbers, on the CPU. Raises UserError where a file is damaged."""
        parts = list[Rows]()
        for place in np.searchsorted(self.numbers, numbers).tolist():
            shard, at = divmod(place, SHARD)
            try:
                if shard not in self.opened:
                    self.opened[shard] = safe_open(self.file(shard), framework="pt")
            except (SafetensorError, OSError):
                raise UserError(f"{self.file(shard)}: damaged; delete it; the same command makes it again") from None
            names = self.opened[shard].keys()
            parts.append({name: self.opened[shard].get_slice(name)[at : at + 1] for name in names})
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


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


def spread(schedule: NoiseSchedule, count: int) -> np.ndarray:
    """At most `count` timesteps from the first to the last, all of them for T or more, [K] int64, rising.

    They are equally far from each other in t/T and the share of log-SNR that lies behind, taken together: where log-SNR
    falls fast, at the data end, losses change as fast. Where two would be the same timestep, one is left.
    """
    if count >= schedule.timesteps:
        return np.arange(schedule.timesteps)
    log_snr = schedule.snr.log().numpy()
    coordinate = np.linspace(0, 1, len(log_snr)) + (log_snr[0] - log_snr) / (log_snr[0] - log_snr[-1])
    return np.unique([nearest(coordinate, place) for place in np.linspace(0, 2, count)])


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


class EpsilonPredictor:
    """A pipeline's network on a device, whose predictions are converted to ε."""

    def __init__(self, family: Family, net: nn.Module, device: torch.device) -> None:
        self.family, self.device = family, device
        self.denoiser = Denoiser(
            partial(family.answer, net), family.schedule.tables(), family.prediction, device=device
        )

    @torch.no_grad()
    def errors(self, split: Split, share: Share) -> Tensor:
        """Squared errors of ε of a batch, mean over values, [B]. Raises UserError in one line if the network fails."""
        conditions = {} if split.captions is None else split.captions.rows(share.images)
        if split.labels is not None:
            conditions[LABEL] = split.labels[torch.from_numpy(share.images)]
        x0 = split.latents.rows(share.images)[LATENT].to(self.device)
        of_split = (split.strata.seed, split.strata.images)
        epsilon = profile_noise(x0.shape[1:], share.timesteps, share.draws, *of_split).to(self.device)
        t = torch.from_numpy(share.timesteps).to(self.device)
        x_t = add_noise(x0, epsilon, *self.denoiser.schedule.at(t, x0))
        given = {name: rows.to(self.device) for name, rows in conditions.items()}
        try:
            return squared_error(epsilon, self.denoiser.given(**given).epsilon(x_t, t))
        except torch.cuda.OutOfMemoryError:
            raise UserError(
                f"--batch-size {len(t)}: too much for the GPU's memory; a smaller one needs less, and so does "
                "--precision bf16"
            ) from None
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise self.family.refusal(f"refuses such images: {first_line(error)}") from None


def losses(
    predictor: Callable[[], EpsilonPredictor], split: Split, batch_size: int, chunks: Chunks, bar: "tqdm[Any]"
) -> np.ndarray:
    """Losses of all draws, [K, n] float32; the network is loaded only if a chunk is missing.

    Raises:
        UserError: the network refuses such images, runs out of memory, predicts NaN or infinite values, or has no error
            at a timestep, where the schedule leaves no signal that float32 resolves.
    """
    strata = split.strata
    shares = {str(share.start): share for share in ranges(strata.index.size, batch_size)}
    bar.update(sum(len(share) for name, share in shares.items() if chunks.folder and chunks.file(name).exists()))

    def measured(share: range) -> np.ndarray:
        model, errors = predictor(), []
        for batch in strata.batches(batch_size, share):
            errors.append(model.errors(split, batch))
            bar.update(len(batch.timesteps))
        values = torch.cat(errors).float().cpu().numpy()
        if len(wrong := np.flatnonzero(~np.isfinite(values))):
            t = strata.timesteps[(share.start + wrong[0]) // strata.index.shape[1]]
            raise UserError(f"the network predicts NaN or infinite values at t = {t}; --precision fp32 may help")
        return values

    makers = {name: Maker((len(share),), partial(measured, share)) for name, share in shares.items()}
    table = np.concatenate(chunks.all(makers)).reshape(strata.index.shape)
    if len(none := np.flatnonzero(~table.any(1))):
        raise UserError(f"all errors of ε at t = {strata.timesteps[none[0]]} are 0; allowed: errors above 0")
    return table
