"""Feedback from training to a timestep sampler: the losses of its batches, and gradients where it asks for them.

A sampler that learns nothing costs nothing: no value is read back from the device for it. Losses count two steps after
theirs, so that no step waits for a device; gradients are waited for whenever they are measured. All processes pass the
same figures to their samplers, which therefore draw the same batches.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import partial

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from unequal.models.denoiser import Denoiser
from unequal.randomness import Stream, torch_seed, uniforms_of
from unequal.timesteps.batches import LossQueue
from unequal.timesteps.samplers import TimestepSampler
from unequal.training.batches import BatchSource
from unequal.training.objectives import Objective


class Feedback:
    """Passes measurements from the training loop to its sampler.

    Args:
        accelerator: knows the processes.
        denoiser: of the network that is trained, as it is: measuring is no business of what averages gradients.
        source: of batches; its sampler is the one.
        objective: (denoiser, batch) → Losses.
    """

    def __init__(self, accelerator: Accelerator, denoiser: Denoiser, source: BatchSource, objective: Objective) -> None:
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


def effective_weighting(sampler: TimestepSampler, objective: Objective) -> dict[str, np.ndarray]:
    """Learned tables of how a training weights timesteps, [T] each; none where the settings determine the weighting.

    Returns:
        `density`, p_t, and `importance`, the sampler's factors, where it learns its density; `factors` where the
        objective learns its weights: of the losses that the sampler's factors multiply.
    """
    factors = objective.factors()
    densities = {"density": sampler.probabilities, "importance": sampler.importance(sampler.horizon)}
    drawn = densities if sampler.density_learned else {}
    return drawn if factors is None else drawn | {"factors": factors.cpu().numpy()}
