"""Measuring the errors of every timestep, on the same draws for every model.

L_t = E‖ε − ε̂(x_t, t)‖²/D (paper 1, Fig. 1a), and the error of x0. The draws (x0, ε) of timestep t depend
on (seed, split, t) alone: differences between models are paired, and far sharper than the losses themselves. A set of
experts is asked as in sampling: each draw goes to the expert of its timestep.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from unequal.data.prepared import to_model_range
from unequal.diffusion.optimal_denoiser import CORRECTION, optimal_loss, sampled_loss
from unequal.diffusion.predictions import add_noise, squared_error
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import Errors
from unequal.models.denoiser import Denoiser
from unequal.randomness import Stream, noise_of, numpy_generator, on_device
from unequal.runtime.chunks import UNSTORED, Chunks, Maker, counted
from unequal.runtime.devices import ranges


class Routed(Protocol):
    """Model to profile: a denoiser alone, or an ensemble of experts."""

    @property
    def routes(self) -> np.ndarray:
        """The number of the denoiser that each timestep is asked of, [T]."""

    def ready(self, timestep: int) -> Denoiser:
        """The denoiser of a timestep, its network on the device."""


class Drawn(NamedTuple):
    """x0 and ε [B, C, H, W], t [B], and the images' labels [B] where they have any."""

    x0: Tensor
    epsilon: Tensor
    t: Tensor
    labels: Tensor | None


@dataclass(frozen=True)
class Draws:
    """n draws at each timestep: images [T, n] as indices, with their labels, and the noise made on demand."""

    images: Tensor
    index: np.ndarray
    seed: int
    device: torch.device
    labels: Tensor | None = None

    @classmethod
    def of(
        cls,
        images: Tensor,
        timesteps: int,
        count: int,
        seed: int,
        device: torch.device,
        labels: Tensor | None = None,
    ) -> "Draws":
        """Draw images [N, C, H, W] (uint8) for T timesteps, n each; without repetition where N allows it.

        `labels` [N] go along with the images, where they have any.
        """
        generator = numpy_generator(seed, Stream.PROFILE_IMAGES, len(images))
        repeat = count > len(images)
        index = [generator.choice(len(images), count, replace=repeat) for _ in range(timesteps)]
        return cls(images, np.stack(index), seed, device, labels)

    def batches(self, size: int, share: range | None = None) -> Iterator[Drawn]:
        """Draws in batches, in the order of t; of all draws, or of a share of them counted through."""
        count = self.index.shape[1]
        share = share or range(self.index.size)
        for start in range(share.start, share.stop, size):
            flat = np.arange(start, min(start + size, share.stop))
            index = torch.from_numpy(self.index.reshape(-1)[flat])
            x0 = to_model_range(on_device(self.images[index], self.device))
            t = on_device(torch.from_numpy(flat // count), self.device)
            epsilon = profile_noise(x0.shape[1:], flat // count, flat % count, self.seed, len(self.images), self.device)
            labels = None if self.labels is None else on_device(self.labels[index], self.device)
            yield Drawn(x0, epsilon, t, labels)


def profile_noise(
    shape: Sequence[int],
    timesteps: np.ndarray,
    draws: np.ndarray,
    seed: int,
    images: int,
    device: torch.device | str = "cpu",
) -> Tensor:
    """ε of draws [B] by their numbers at timesteps [B], of a set of so many images, [B, *shape]."""
    ids = (timesteps.astype(np.int64) << 32) + draws
    return noise_of(shape, ids, seed, Stream.PROFILE_NOISE, images, device=device)


def profile(model: Routed, draws: Draws, batch_size: int, progress: bool = False, chunks: Chunks = UNSTORED) -> Errors:
    """Errors of ε and of x0 of every draw, from the same answers, both [T, n] float32.

    Of pixels x0 is clipped to [−1, 1] as in sampling: near the noise an unclipped one is off by far more than any
    image, and its error says nothing about samples. Latents have no bounds.
    """

    def errors(conditioned: Denoiser, drawn: Drawn, x_t: Tensor) -> Tensor:
        epsilon, x0 = conditioned.epsilon_and_x0(x_t, drawn.t)
        bounded = x0.clamp(-1, 1) if conditioned.bounded else x0
        return torch.stack([squared_error(drawn.epsilon, epsilon), squared_error(drawn.x0, bounded)])

    return Errors(*measure(errors, 2, model, draws, batch_size, progress, chunks))


def profile_optimal_loss(
    images: Tensor,
    schedule: NoiseSchedule,
    draws: Draws,
    chunks: Chunks = UNSTORED,
    sampled: int | None = None,
    progress: bool = False,
) -> np.ndarray:
    """Loss of the best possible denoiser of a data set [N, C, H, W] (uint8) on the same draws, [T, n].

    Where it is `sampled`, by so many images for each timestep, it is an estimate, of which the mean over draws counts.
    The draws' own images come first in the data set.
    """
    from unequal.runtime.progress import progress as progress_of

    whole = sampled is None or sampled >= len(images)
    clean = to_model_range(images.to(draws.device)) if whole else images
    table = schedule.to(draws.device)

    count = draws.index.shape[1]

    def loss(drawn: Drawn) -> Tensor:
        t = int(drawn.t[0])
        known = clean, table.alpha[t], table.sigma[t]
        if whole:
            return optimal_loss(drawn.x0, drawn.epsilon, *known)
        return estimated(drawn, draws, t, sampled or 0, *known)

    def measured(share: range) -> np.ndarray:
        return torch.stack([loss(drawn).float().cpu() for drawn in draws.batches(count, share)]).numpy()

    shares = ranges(draws.index.size, count)
    makers = {str(share.start): Maker((len(share) // count, count), partial(measured, share)) for share in shares}
    with progress_of(len(chunks.own(makers)), "parts", label="optimal-denoiser loss", shown=progress) as bar:
        return np.concatenate(chunks.all(counted(makers, bar)))


def estimated(drawn: Drawn, draws: Draws, t: int, sampled: int, images: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The best denoiser's loss of the draws at a timestep by a sample of the data set, [n]; see `sampled_loss`."""
    chosen_ones = numpy_generator(draws.seed, Stream.FLOOR, t).choice(len(images), sampled, replace=False)
    index = torch.from_numpy(chosen_ones)
    clean = to_model_range(images[index.to(images.device)].to(draws.device))
    others = (torch.from_numpy(draws.index[t])[:, None] != index).to(draws.device)
    correction = CORRECTION * len(images) / sampled
    return sampled_loss(drawn.x0, drawn.epsilon, clean, others, correction, alpha, sigma)


def head_products(
    denoiser: Denoiser, draws: Draws, batch_size: int, progress: bool = False, chunks: Chunks = UNSTORED
) -> np.ndarray:
    """Products of the heads' x0-errors, mean over the values of an image, at every draw, [T, n, heads, heads]."""
    heads = len(denoiser.heads)

    def products(conditioned: Denoiser, drawn: Drawn, x_t: Tensor) -> Tensor:
        errors = (conditioned.x0_of_heads(x_t, drawn.t) - drawn.x0).flatten(2).double()
        return torch.einsum("ibd,jbd->ijb", errors, errors).reshape(heads**2, -1) / errors.shape[2]

    values = measure(products, heads**2, denoiser, draws, batch_size, progress, chunks)
    return np.moveaxis(values, 0, -1).reshape(*draws.index.shape, heads, heads)


def measure(
    figure: Callable[[Denoiser, Drawn, Tensor], Tensor],
    rows: int,
    model: Routed,
    draws: Draws,
    batch_size: int,
    progress: bool = False,
    chunks: Chunks = UNSTORED,
) -> np.ndarray:
    """A figure [k, B] of (denoiser, draws, x_t), k = `rows`, over all draws, [k, T, n]; denoisers know the condition.

    `chunks` are what an earlier attempt has left.
    """
    from unequal.runtime.progress import progress as progress_of

    count = draws.index.shape[1]
    shares = ranges(draws.index.size, batch_size)
    with progress_of(draws.index.size, "draws", shown=progress) as bar:

        def measured(share: range) -> np.ndarray:
            figures = []
            for part in cut_at_borders(share, count * borders(model.routes)):
                denoiser = model.ready(part.start // count)
                for drawn in draws.batches(batch_size, part):
                    x_t = add_noise(drawn.x0, drawn.epsilon, *denoiser.schedule.at(drawn.t, drawn.x0))
                    # Left on the device: to fetch a figure is to wait for it, while the next batch could be made.
                    figures.append(figure(denoiser.conditioned_on(drawn.x0, drawn.labels), drawn, x_t))
                    bar.update(len(drawn.t))
            return torch.cat(figures, dim=1).cpu().numpy()

        makers = {str(share.start): Maker((rows, len(share)), partial(measured, share)) for share in shares}
        whole = np.concatenate(chunks.all(makers), axis=1)
    return whole.reshape(len(whole), *draws.index.shape)


def borders(routes: np.ndarray) -> np.ndarray:
    """Timesteps that another denoiser is asked of than the one before, of the routes of all, [T]."""
    return np.flatnonzero(np.diff(routes)) + 1


def cut_at_borders(share: range, firsts: np.ndarray) -> list[range]:
    """A share of all draws in parts that one expert answers each, whose first draws are given."""
    inside = firsts[(share.start < firsts) & (firsts < share.stop)].tolist()
    return [range(*ends) for ends in pairwise([share.start, *inside, share.stop])]
