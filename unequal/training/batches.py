"""Batches: a pure function of (seed, step), so that nothing has to be remembered to resume.

All that is random is a function of (seed, stream, step, place in the batch) by one generator, so that 1, 2 or 8
processes draw the same global batch. Noise is computed for a process's part alone, on its device. A GPU gets of a step
what the host decides: timesteps, weights, flips and withheld labels, by copies for which nothing waits, and images that
are not in its memory.

Images are seen epoch after epoch, each epoch in an order of its own. A data set that may not fit into memory is
shuffled in windows of neighbours: windows come in any order, images in any order within them, so that a disk reads
stretches instead of single images. Prepared images lie in random order already, and the windows' borders move from
epoch to epoch.

Feedback to a sampler are the losses of its batches, and gradients where it asks for them. A sampler that learns nothing
costs nothing: no value is read back from the device for it. Losses count two steps after theirs, so that no step waits
for a device; gradients are waited for whenever they are measured. All processes pass the same figures to their
samplers, which therefore draw the same batches.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from unequal.data.prepared import chosen, to_model_range
from unequal.models.conditions import Condition
from unequal.randomness import Stream, noise_of, numpy_generator, permutation, torch_seed, uniform_of, uniforms_of
from unequal.timesteps.batches import LossQueue, to_device
from unequal.timesteps.samplers import TimestepBatch, TimestepSampler

if TYPE_CHECKING:
    from accelerate import Accelerator

    from unequal.models.denoiser import Denoiser
    from unequal.training.objectives import Objective

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


class Feedback:
    """Passes measurements from the training loop to its sampler.

    Args:
        accelerator: knows the processes.
        denoiser: of the network that is trained, as it is: measuring is no business of what averages gradients.
        source: of batches; its sampler is the one.
        objective: (denoiser, batch) → Losses.
    """

    def __init__(
        self, accelerator: "Accelerator", denoiser: "Denoiser", source: BatchSource, objective: "Objective"
    ) -> None:
        self.accelerator, self.denoiser, self.source, self.objective = accelerator, denoiser, source, objective
        self.losses = LossQueue(source.sampler)

    @property
    def sampler(self) -> TimestepSampler:
        return self.source.sampler

    def images_seen(self, step: int) -> int:
        """Images that have gone forward and backward before a step: those of batches, and of measurements."""
        measured = self.sampler.measured_images * self.measurements(step)
        return step * self.source.batch_size + measured

    def measurements(self, step: int) -> int:
        """Measurements before a step: one at the first, and one whenever another `refresh_images` are trained with."""
        every = self.sampler.refresh_images
        return min(step, (step - 1) * self.source.batch_size // every + 1) if every and step else 0

    def due(self, step: int) -> bool:
        return self.measurements(step + 1) > self.measurements(step)

    def refresh(self, step: int) -> None:
        """Let the sampler learn from losses that count in a step, and measure before it if its time has come."""
        self.losses.learn(step)
        if self.due(step):
            places = range(self.sampler.measured_images)
            uniform = uniforms_of(places, self.source.seed, Stream.MEASURED, step, 0)[0]
            self.sampler.refresh(partial(self.squared_norms, step), uniform)

    def squared_norms(self, step: int, timesteps: np.ndarray) -> np.ndarray:
        """‖g‖² of single images at timesteps [n]; each process measures its share of them."""
        rank = self.accelerator.process_index
        torch.manual_seed(torch_seed(self.source.seed, Stream.MEASURED, step, 2, rank))  # dropout's
        batch = self.source.measured(step, timesteps)
        objective = deepcopy(self.objective)  # one that remembers is not to learn from what is measured
        losses = (
            objective(self.denoiser.conditioned_on(image.x0, image.labels), image).weighted.sum()
            for image in batch.singles(self.own(len(timesteps)))
        )
        norms = squared_norms(losses, list(self.denoiser.net.parameters()))
        return self.all_gather([norms], len(timesteps)).cpu().numpy()

    def learn(self, step: int, losses: list[Tensor]) -> None:
        """Hand on the losses of a step, given as parts of this process's share of the batch."""
        if self.sampler.learns:
            whole = self.all_gather(losses, self.source.batch_size)
            self.losses.push(step, self.source.timesteps(step).timesteps, whole)

    def all_gather(self, mine: list[Tensor], total: int) -> Tensor:
        """This process's share of some figures, joined with those of the others, [total]."""
        whole = torch.zeros(total, dtype=torch.float64, device=self.source.device)
        whole[self.own(total)] = torch.hstack(mine).double()
        found: Tensor = self.accelerator.reduce(whole, "sum")
        return found

    def own(self, total: int) -> slice:
        """This process's share of some figures."""
        index, count = self.accelerator.process_index, self.accelerator.num_processes
        return slice(total * index // count, total * (index + 1) // count)


def squared_norms(losses: Iterable[Tensor], parameters: Sequence[Tensor]) -> Tensor:
    """‖g‖² over all parameters of each loss's gradient, [n] float64 on their device; their `grad` is left alone."""
    gradients = (torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in losses)
    return torch.stack([torch.stack([part.double().square().sum() for part in g]) for g in gradients]).sum(1)


def effective_weighting(sampler: TimestepSampler, objective: "Objective") -> dict[str, np.ndarray]:
    """Learned tables of how a training weights timesteps, [T] each; none where the settings determine the weighting.

    Returns:
        `density`, p_t, and `importance`, the sampler's factors, where it learns its density; `factors` where the
        objective learns its weights: of the losses that the sampler's factors multiply.
    """
    factors = objective.factors()
    densities = {"density": sampler.probabilities, "importance": sampler.importance(sampler.horizon)}
    drawn = densities if sampler.density_learned else {}
    return drawn if factors is None else drawn | {"factors": factors.cpu().numpy()}
