"""Errors on held-out images within a group of timesteps, weighted by what they do to samples.

The error is the endpoint `x0_loss_over_log_snr` of `unequal.evaluation.loss_profile`. A group's part of that mean is
the sum over its timesteps, so that the parts of all groups add up to the error of all models together.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.predictions import add_noise, squared_error
from unequal.errors import UserError
from unequal.evaluation.loss_profile import endpoints
from unequal.experts.importance import PIXELS_AT_ONCE
from unequal.models.denoiser import Denoiser
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream, torch_seed
from unequal.timesteps.draws import LowDiscrepancy
from unequal.timesteps.partition import TimestepSet, stride_of
from unequal.timesteps.samplers import TimestepSampler, normalised
from unequal.training.batches import BatchSource

#: Half of the held-out images: the one that selects, and the one that reports.
CHOICE, REPORT = 0, 1


@dataclass(frozen=True)
class HeldOut:
    """A half of the held-out images, with as many draws of them for every group: the same for every model.

    Attributes:
        images: [N, C, H, W].
        labels: [N] int64, where there are any.
        count: draws a group.
        spec: of the models.
        seed: of the draws.
        device: where models are asked.
    """

    images: Tensor
    labels: Tensor | None
    count: int
    spec: ModelSpec
    seed: int
    device: torch.device

    @classmethod
    def of(
        cls, data: PreparedData, half: int, *, count: int, spec: ModelSpec, seed: int, device: torch.device
    ) -> "HeldOut":
        """The half CHOICE or REPORT of the held-out images. Raises UserError where it holds none."""
        images = data.holdout_choice if half == CHOICE else data.holdout_report
        if not len(images):
            raise UserError(f"data.holdout: {len(data.holdout)} held-out images; two halves need two or more")
        labels = data.labels_of("holdout_choice" if half == CHOICE else "holdout_report")
        return cls(tensor_of(images), labels, count, spec, torch_seed(seed, Stream.MEASURED, half, count), device)

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the errors of all timesteps, [T]."""
        return endpoints(self.spec.noise_schedule())["x0_loss_over_log_snr"].weights

    def error(self, net: nn.Module, timesteps: TimestepSet) -> float:
        """A network's part of the error within a group; 0 where none of its timesteps counts.

        Timesteps are drawn by their weights, evenly spread, so that every draw counts equally. Raises UserError where
        what the network answers is NaN or infinite.
        """
        own = np.zeros_like(self.weights)
        own[timesteps.slice] = self.weights[timesteps.slice]
        if not own.any():
            return 0.0
        source = BatchSource(
            self.images,
            self.count,
            TimestepSampler(normalised(own), draw=LowDiscrepancy()),
            torch_seed(self.seed, timesteps.first, timesteps.last, stride_of(timesteps)),
            False,
            self.device,
            labels=self.labels,
        )
        denoiser = Denoiser.of(net.to(self.device), self.spec)
        at_once = max(1, PIXELS_AT_ONCE // self.spec.space.size**2)
        parts = (slice(start, start + at_once) for start in range(0, self.count, at_once))
        total = sum(self.sum_of_errors(denoiser, source, part) for part in parts)
        if not math.isfinite(total):
            raise UserError(
                f"the error of a model of timesteps {timesteps.first} … {timesteps.last} on held-out images is "
                f"{total}; lower the learning rate of its recipe"
            )
        return float(own.sum()) * total / self.count

    @torch.no_grad()
    def sum_of_errors(self, denoiser: Denoiser, source: BatchSource, part: slice) -> float:
        """Sum of the weighted errors of some draws."""
        batch = source.draw(0, part)
        x_t = add_noise(batch.x0, batch.epsilon, *denoiser.schedule.at(batch.timesteps, batch.x0))
        x0 = denoiser.conditioned_on(batch.x0, batch.labels).x0(x_t, batch.timesteps)
        if self.spec.space.autoencoder is None:  # latents have no bounds
            x0 = x0.clamp(-1, 1)
        return float(squared_error(batch.x0, x0).double().sum())
