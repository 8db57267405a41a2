"""A batch is a pure function of (seed, step): nothing has to be remembered to resume.

Indices, timesteps, noise and flips of a step come from generators seeded by (seed, stream, step);
1, 2 or 8 processes draw the same global batch and each takes its part.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from unequal.data.pixels import chosen, to_model_range
from unequal.randomness import Stream, numpy_generator, torch_generator
from unequal.timesteps.samplers import TimestepBatch, TimestepSampler
from unequal.training.prefetching import Gathered, Prefetcher
from unequal.training.shuffling import image_indices

CPU = torch.device("cpu")


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
            one = slice(i, i + 1)
            labels = None if self.labels is None else self.labels[one]
            yield Batch(self.x0[one], self.epsilon[one], self.timesteps[one], self.weights[one], labels)

    def chosen(self, index: Tensor) -> "Batch":
        """The batch of some of the images, at places [n] int64 on their device."""
        labels = None if self.labels is None else self.labels[index]
        return Batch(self.x0[index], self.epsilon[index], self.timesteps[index], self.weights[index], labels)

    def at(self, index: np.ndarray, timesteps: np.ndarray) -> "Batch":
        """Some of the images [n] with their noise, at other timesteps [n]."""
        places, moved = (torch.from_numpy(one).to(self.x0.device) for one in (index, timesteps))
        return replace(self.chosen(places), timesteps=moved)


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
        window: images that are shuffled together, see `unequal.training.shuffling`; None: all.
        prefetch: have a thread gather the next step's images while this one's are trained on.
        labels: [N] int64 of the images, where they have any.
        repeats: places in a row that an image takes, each with a timestep and noise of its own.
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
    repeats: int = 1

    def draw(self, step: int, part: slice = slice(None)) -> Batch:
        """The batch of a step, or a process's part of it."""
        timesteps = self.timesteps(step)
        images, epsilon, labels = self.coming.get(step, part) if self.prefetch else self.gathered(step, part)
        x0 = to_model_range(images.to(self.device, non_blocking=True))
        return Batch(
            self.flipped(x0, step, part),
            epsilon.to(self.device, non_blocking=True),
            torch.from_numpy(timesteps.timesteps[part]).to(self.device, non_blocking=True),
            torch.from_numpy(timesteps.weights[part]).to(self.device, torch.float32, non_blocking=True),
            None if labels is None else labels.to(self.device, non_blocking=True),
        )

    @cached_property
    def coming(self) -> Prefetcher:
        """What is gathered ahead."""
        return Prefetcher(self.gathered)

    def gathered(self, step: int, part: slice) -> Gathered:
        """Images as stored, noise and labels of a part of a step, which no sampler has a say in; pinned for a GPU."""
        drawn = image_indices(self.seed, step, self.batch_size, len(self.images), self.window, self.repeats)
        index = torch.from_numpy(drawn[part])
        images = self.images[index.to(self.images.device, non_blocking=True)]
        labels = chosen(self.labels, index, CPU)
        # Drawn on the CPU, so that every device sees the same noise.
        generator = torch_generator("cpu", self.seed, Stream.NOISE, step)
        epsilon = torch.randn((self.batch_size, *images.shape[1:]), generator=generator)[part]
        if self.device.type == "cuda":
            pinned = None if labels is None else labels.pin_memory()
            return images if images.is_cuda else images.pin_memory(), epsilon.pin_memory(), pinned
        return images, epsilon, labels

    def timesteps(self, step: int) -> TimestepBatch:
        """Timesteps and importance weights of a step's whole batch."""
        generator = numpy_generator(self.seed, Stream.TIMESTEPS, step)
        trained = step * self.batch_size
        return self.sampler.sample(self.batch_size, generator, trained, partial(self.whole, step))

    def whole(self, step: int) -> Tensor:
        """The images of a step's whole batch as the network is to know them, on the CPU, [B, C, H, W] in [-1, 1]."""
        images, *_ = self.gathered(step, slice(None))
        return self.flipped(to_model_range(images.cpu()), step, slice(None))

    def again(self, step: int) -> Batch:
        """A step's whole batch with noise that it is not trained with, to be measured at other timesteps."""
        x0 = self.whole(step).to(self.device)
        generator = torch_generator("cpu", self.seed, Stream.MEASURED, step, 3)
        epsilon = torch.randn(x0.shape, generator=generator).to(self.device)
        *_, labels = self.gathered(step, slice(None))
        nothing = torch.zeros(len(x0), device=self.device)
        return Batch(x0, epsilon, nothing.long(), nothing + 1, None if labels is None else labels.to(self.device))

    def measured(self, step: int, timesteps: np.ndarray) -> Batch:
        """Images at given timesteps [n], to be measured before a step and not to be trained on."""
        generator = numpy_generator(self.seed, Stream.MEASURED, step, 1)
        return draw_at(self.images, timesteps, generator, self.device, self.labels)

    def flipped(self, x0: Tensor, step: int, part: slice) -> Tensor:
        """Images, about half of them mirrored if that is asked for."""
        if not self.horizontal_flips:
            return x0
        coins = numpy_generator(self.seed, Stream.FLIPS, step).random(self.batch_size) < 0.5
        mirrored = torch.from_numpy(coins[part]).to(x0.device, non_blocking=True).reshape(-1, 1, 1, 1)
        return torch.where(mirrored, x0.flip(-1), x0)


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
    noise = torch_generator("cpu", int(generator.integers(2**62)))
    epsilon = torch.randn(x0.shape, generator=noise).to(device)
    ones = torch.ones(len(timesteps), device=device)
    return Batch(x0, epsilon, torch.from_numpy(timesteps).to(device), ones, chosen(labels, index, device))
