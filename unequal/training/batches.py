"""Batches: a pure function of (seed, step), so that nothing has to be remembered to resume.

All that is random is a function of (seed, stream, step, place in the batch) by one generator, so that 1, 2 or 8
processes draw the same global batch. Noise is computed for a process's part alone, on its device. A GPU gets of a step
what the host decides: timesteps, weights, flips and withheld labels, by copies for which nothing waits, and images that
are not in its memory.

Images are seen epoch after epoch, each epoch in an order of its own. A data set that may not fit into memory is
shuffled in windows of neighbours: windows come in any order, images in any order within them, so that a disk reads
stretches instead of single images. Prepared images lie in random order already, and the windows' borders move from
epoch to epoch.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from unequal.data.prepared import chosen, to_model_range
from unequal.models.conditions import Condition
from unequal.randomness import Stream, noise_of, numpy_generator, permutation, uniform_of, uniforms_of
from unequal.timesteps.batches import to_device
from unequal.timesteps.samplers import TimestepBatch, TimestepSampler

#: From this size on images are shuffled in windows. By the data alone, so that no machine changes a result; smaller
#: sets fit into any memory, and an order that is the same as ever is worth more to them.
WINDOWED_BYTES = 4 << 30
#: Size of a window: long to a disk, short to a memory.
WINDOW_BYTES = 64 << 20
#: Images, and labels where there are any.
Gathered = tuple[Tensor, Tensor | None]


@dataclass(frozen=True)
class Batch:
    """x0 and ε [B, C, H, W] in [-1, 1] and N(0, 1), timesteps [B] int64, importance weights [B].

    `labels` [B] int64 are the images' classes, None where the data have none.
    """

    x0: Tensor
    epsilon: Tensor
    timesteps: Tensor
    weights: Tensor
    labels: Tensor | None = None

    def singles(self, part: slice = slice(None)) -> Iterator["Batch"]:
        """Batches of one image each, of all images or of a part."""
        for i in range(len(self.timesteps))[part]:
            yield self.chosen(slice(i, i + 1))

    def chosen(self, index: Tensor | slice) -> "Batch":
        """The batch of some of the images, in a slice or at places [n] int64 on their device."""
        labels = None if self.labels is None else self.labels[index]
        return Batch(self.x0[index], self.epsilon[index], self.timesteps[index], self.weights[index], labels)

    def at(self, index: np.ndarray, timesteps: np.ndarray) -> "Batch":
        """Some of the images [n] with their noise, at other timesteps [n]."""
        places, moved = (torch.from_numpy(one).to(self.x0.device) for one in (index, timesteps))
        return replace(self.chosen(places), timesteps=moved)


class Prefetcher:
    """Gathers each part of a step one step ahead of those who ask for them in order; others wait.

    Args:
        gather: (step, part of the batch) → tensors, a pure function of both.
    """

    def __init__(self, gather: Callable[[int, slice], Gathered]) -> None:
        self.gather = gather
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead")
        self.coming: dict[tuple[int, int | None], Future[Gathered]] = {}

    def get(self, step: int, part: slice) -> Gathered:
        """A part of a step; the same part of the next one is begun."""
        coming = self.coming.pop((step, part.start), None)
        found = self.gather(step, part) if coming is None else coming.result()
        self.coming[step + 1, part.start] = self.pool.submit(self.gather, step + 1, part)
        return found


@dataclass(frozen=True)
class BatchSource:
    """Draws any step's batch.

    Args:
        images: [N, C, H, W] uint8, on the training device or in (mapped) host memory.
        batch_size: images a step over all processes.
        sampler: of timesteps.
        seed: of everything random.
        horizontal_flips: mirror each image with probability ½.
        device: where batches are needed.
        window: images that are shuffled together, see `unequal.training.batches`; None: all.
        prefetch: have a thread gather the next step's images while this one's is trained with.
        labels: [N] int64 of the images, next to them, where they have any.
        condition: of the network; it may withhold labels. None: it withholds none.
    """

    images: Tensor
    batch_size: int
    sampler: TimestepSampler
    seed: int
    horizontal_flips: bool
    device: torch.device
    window: int | None = None
    prefetch: bool = False
    labels: Tensor | None = None
    condition: Condition | None = None

    def draw(self, step: int, part: slice = slice(None)) -> Batch:
        """The batch of a step, or a process's part of it."""
        timesteps, places = self.timesteps(step), range(self.batch_size)[part]
        images, labels = self.coming.get(step, part) if self.prefetch else self.gathered(step, part)
        x0 = to_model_range(images.to(self.device, non_blocking=True))
        return Batch(
            self.flipped(x0, step, places),
            noise_of(x0.shape[1:], places, self.seed, Stream.NOISE, step, device=self.device),
            to_device(timesteps.timesteps[part], self.device),
            to_device(timesteps.weights[part].astype(np.float32), self.device),
            None if labels is None else self.withheld(labels.to(self.device, non_blocking=True), step, places),
        )

    @cached_property
    def coming(self) -> Prefetcher:
        return Prefetcher(self.gathered)

    def gathered(self, step: int, part: slice) -> Gathered:
        """Images as stored and labels of a part of a step, which no sampler has a say in; pinned for a GPU."""
        where, size = self.images.device, self.batch_size
        index = image_indices(self.seed, step, size, len(self.images), self.window, where)[part]
        images, labels = self.images[index], chosen(self.labels, index, index.device)
        if self.device.type == "cuda" and not images.is_cuda:
            return images.pin_memory(), None if labels is None else labels.pin_memory()
        return images, labels

    def timesteps(self, step: int) -> TimestepBatch:
        """Timesteps and importance weights of a step's whole batch."""
        uniforms = uniforms_of(range(self.batch_size), self.seed, Stream.TIMESTEPS, step)
        return self.sampler.sample(uniforms, images_trained=step * self.batch_size)

    def measured(self, step: int, timesteps: np.ndarray) -> Batch:
        """Images at given timesteps [n], for a measurement before a step, not for training."""
        generator = numpy_generator(self.seed, Stream.MEASURED, step, 1)
        return draw_at(self.images, timesteps, generator, self.device, self.labels)

    def flipped(self, x0: Tensor, step: int, places: range) -> Tensor:
        """Images at these places of the batch, about half of them mirrored if that is asked for."""
        if not self.horizontal_flips:
            return x0
        mirrored = uniform_of(places, self.seed, Stream.FLIPS, step, device=x0.device) < 0.5
        return torch.where(mirrored.reshape(-1, 1, 1, 1), x0.flip(-1), x0)

    def withheld(self, labels: Tensor, step: int, places: range) -> Tensor:
        """Labels at these places of the batch, some of them become the null class if the condition drops some."""
        if self.condition is None or self.condition.null is None:
            return labels
        coins = uniform_of(places, self.seed, Stream.LABEL_DROPOUT, step, device=labels.device)
        return torch.where(coins < self.condition.dropout, self.condition.null, labels)


def draw_at(
    images: Tensor,
    timesteps: np.ndarray,
    generator: np.random.Generator,
    device: torch.device,
    labels: Tensor | None = None,
) -> Batch:
    """Images of a set [N, C, H, W] (uint8) at given timesteps [n], each drawn on its own, with weights of 1."""
    index = torch.from_numpy(generator.integers(len(images), size=len(timesteps)))
    x0 = to_model_range(images[index.to(images.device)].to(device))
    epsilon = noise_of(x0.shape[1:], range(len(x0)), int(generator.integers(2**62)), device=device)
    ones = torch.ones(len(timesteps), device=device)
    return Batch(x0, epsilon, torch.from_numpy(timesteps).to(device), ones, chosen(labels, index, device))


def window_of(images: int, bytes_an_image: int) -> int | None:
    """Images that are shuffled together; None: all of them."""
    if images * bytes_an_image < WINDOWED_BYTES:
        return None
    return max(1, WINDOW_BYTES // bytes_an_image)


def image_indices(
    seed: int, step: int, batch_size: int, images: int, window: int | None = None, device: torch.device | str = "cpu"
) -> Tensor:
    """Indices [B] int64 of the images of a step: the next ones of the epochs' orders."""
    start, stop, parts = step * batch_size, (step + 1) * batch_size, []
    while start < stop:
        epoch, offset = divmod(start, images)
        parts.append(epoch_order(seed, epoch, images, window or 1, device)[offset : offset + stop - start])
        start += len(parts[-1])
    return torch.cat(parts)


@lru_cache(maxsize=2)
def epoch_order(seed: int, epoch: int, images: int, window: int, device: torch.device | str) -> Tensor:
    """The order of the images in an epoch, [N] int64."""
    return permutation(images, window, seed, Stream.SHUFFLE, epoch, device=device)
