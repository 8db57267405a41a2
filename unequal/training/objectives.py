"""Losses of a batch, from which a network learns, and where weights of timesteps are applied to them.

`SingleHead` multiplies by a fixed weight, `OverRunningMean` and `OverUncertainty` divide by a learned one; all fixed
weights are functions in `unequal.timesteps.weights`. States of learned weights come first: running means of bins, and
uncertainties of the noise. Networks with three heads have objectives of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.predictions import to_x0
from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.denoiser import Denoiser
from unequal.models.spec import ModelSpec
from unequal.settings.loss_weights import LearnedUncertainty, LossWeight, RunningMean
from unequal.timesteps.partition import Partition, equal_log_snr
from unequal.timesteps.weights import weight_table
from unequal.training.batches import Batch

#: Loss of an untrained network, about, in the space of ε, v or x0: images and noise are of order 1.
UNTRAINED = 1.0
#: Fourier features of the noise level, as EDM2 has them.
FEATURES = 128
#: Seed of their frequencies and phases, which are the same in every training.
FEATURE_SEED = 0


class RunningMeans(nn.Module):
    """Means of losses in bins of timesteps, a loss counting half after `half_life` further images of any bin."""

    sums: Tensor
    counts: Tensor

    def __init__(self, bins: Partition, losses: int, half_life: int, device: torch.device | str) -> None:
        """
        Args:
            bins: of the timesteps.
            losses: per image; each has means of its own.
            half_life: in images.
            device: of the training.
        """
        super().__init__()
        self.bins = torch.from_numpy(bins.members).to(device)
        self.half_life = half_life
        # Before the first image of a bin, its mean is what an untrained network loses.
        start = torch.ones(len(bins), 1, dtype=torch.float64, device=device)
        self.register_buffer("sums", UNTRAINED * start.repeat(1, losses))
        self.register_buffer("counts", start)

    def at(self, timesteps: Tensor) -> Tensor:
        return (self.sums / self.counts).float()[self.bins[timesteps]].T

    def update(self, images: Tensor, losses: Tensor) -> None:
        """Take in a step: its images [bins, 1], and the sums of their losses [bins, losses]."""
        kept = 0.5 ** (images.sum() / self.half_life)
        self.sums.mul_(kept).add_(losses)
        self.counts.mul_(kept).add_(images)


class Uncertainty(nn.Module):
    """u of each timestep (EDM2, 2312.02696, section 2.2): linear in Fourier features of (ln r)/4, r = σ/α; first 0."""

    features: Tensor

    def __init__(self, schedule: NoiseSchedule) -> None:
        super().__init__()
        self.register_buffer("features", fourier_features(-schedule.snr.log() / 8), persistent=False)
        self.weight = nn.Parameter(torch.zeros(FEATURES, device=self.features.device))

    def at(self, timesteps: Tensor | slice) -> Tensor:
        return self.features[timesteps] @ self.weight


def fourier_features(level: Tensor) -> Tensor:
    """cos(2π(f·x + φ)) of levels x [T], f ~ N(0, 1), φ ~ U(0, 1), with a length of about 1, [T, FEATURES] float32.

    EDM2 keeps the length of its weights instead, which slows u down by as much.
    """
    generator = torch.Generator().manual_seed(FEATURE_SEED)
    frequencies = torch.randn(FEATURES, generator=generator).to(level)
    phases = torch.rand(FEATURES, generator=generator).to(level)
    return ((2 / FEATURES) ** 0.5 * torch.cos(2 * torch.pi * (level[:, None] * frequencies + phases))).float()


#: λ of IDDPM: one term of the bound, drawn instead of the sum over all T, counts λ·T times.
BOUND_SHARE = 0.001


@dataclass(frozen=True)
class Losses:
    """Named terms of a batch: `weighted` [B] is what is learned from, `terms` are means for the log."""

    weighted: Tensor
    terms: dict[str, Tensor]


class Objective(nn.Module, ABC):
    """A batch in, its losses out; the state of an objective is in its buffers, which the checkpoint holds.

    A step's batch comes in parts, one a process and accumulated part. `forward` uses the state before the step and
    only adds up; `end_step` takes the sums in, so that the number of parts changes nothing.
    """

    @abstractmethod
    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        """Losses of a part of a batch, which the denoiser is conditioned on."""

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        """Take in the sums of a step's parts; `total` sums a tensor over all processes."""

    def factors(self) -> Tensor | None:
        """Learned factors of the losses of timesteps, [T]; None where nothing is learned."""
        return None

    def statistics(self) -> dict[str, np.ndarray]:
        """Named tables about the training; most objectives have none."""
        return {}


class SingleHead(Objective):
    """Weighted squared error of ε, v, x0 or the velocity.

    Args:
        weights: of each timestep's squared error, [T], on the training device; None: 1.
    """

    def __init__(self, weights: Tensor | None = None) -> None:
        super().__init__()
        self.weights = None if weights is None else weights.float()

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        return self.weighted(denoiser.losses(batch.x0, batch.epsilon, batch.timesteps), batch)

    def weighted(self, loss: Tensor, batch: Batch) -> Losses:
        weighted = loss if self.weights is None else loss * self.weights[batch.timesteps]
        return Losses(weighted * batch.weights, {"mse": loss.detach().mean()})


class Hybrid(SingleHead):
    """IDDPM's hybrid objective (2102.09672, eq. 16) of a network that also predicts its variance.

    The weighted squared error of one half of the channels, and from the other half 0.001·T × a term of the bound, in
    bits per dimension, whose gradient reaches the variance alone.
    """

    def __init__(self, schedule: NoiseSchedule, weights: Tensor | None = None) -> None:
        super().__init__(weights)
        from unequal.diffusion.posterior import VariationalBound  # needed by learned variance alone

        self.bound = VariationalBound(schedule)

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        noised = denoiser.ask(batch.x0, batch.epsilon, batch.timesteps)
        output, variance = noised.output.float().chunk(2, dim=1)
        predicted = to_x0(denoiser.prediction, output.detach(), noised.x_t, noised.alpha, noised.sigma)
        term = self.bound.term(noised.x0, noised.x_t, predicted, variance, batch.timesteps)
        errors = self.weighted(noised.errors(denoiser.prediction, output), batch)
        share = BOUND_SHARE * denoiser.schedule.timesteps * batch.weights
        return Losses(errors.weighted + share * term, errors.terms | {"bound": term.detach().mean()})


class Wrapped(Objective):
    """An objective around another one, whose state and statistics it passes on."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.objective = objective

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.objective.end_step(total)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.objective.statistics()


class OverRunningMean(Wrapped):
    """Another objective, each image's loss divided by the running mean of losses at timesteps like its own.

    An optimizer that sees one range of timesteps alone scales its steps to the gradients there. With this weight the
    optimizer of all timesteps sees losses of one size too. Before the first step it divides by 1.
    """

    pending: Tensor

    def __init__(self, objective: Objective, bins: Partition, half_life: int, device: torch.device) -> None:
        """
        Args:
            objective: without weights.
            bins: of the timesteps.
            half_life: of an image in the running means, in images.
            device: of the training.
        """
        super().__init__(objective)
        self.means = RunningMeans(bins, 1, half_life, device)
        # Images and losses of a step. Between steps nothing is pending, and only then is a state saved.
        zeros = torch.zeros(len(bins), 2, dtype=torch.float64, device=device)
        self.register_buffer("pending", zeros, persistent=False)

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        found = self.objective(denoiser, batch)
        # The sampler's factors are no part of a timestep's loss.
        loss = (found.weighted.detach() / batch.weights).double()
        rows = torch.stack([torch.ones_like(loss), loss], dim=1)
        self.pending.index_add_(0, self.means.bins[batch.timesteps], rows)
        return Losses(found.weighted / self.means.at(batch.timesteps)[0], found.terms)

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        super().end_step(total)
        images, losses = total(self.pending).split(1, dim=1)
        self.means.update(images, losses)
        self.pending = torch.zeros_like(self.pending)


class OverUncertainty(Wrapped):
    """Another objective, L/e^u + u: at its least, u is ln E[L], so that every timestep's loss is divided by its mean.

    Whatever fixed weight L has, u takes it up; the network's gradient is divided by e^u. Values at different u are not
    comparable: the log has L as `loss`, and the minimised value as `uncertain`.
    """

    def __init__(self, objective: Objective, uncertainty: Uncertainty) -> None:
        super().__init__(objective)
        self.uncertainty = uncertainty

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        found = self.objective(denoiser, batch)
        u = self.uncertainty.at(batch.timesteps)
        # A timestep's importance weighs all that is learned from it, u too.
        whole = found.weighted / u.exp() + batch.weights * u
        loss = found.weighted.detach().mean()
        return Losses(whole, found.terms | {"loss": loss, "uncertain": whole.detach().mean()})

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        super().end_step(total)
        # Accelerate averages the network's gradient over processes; these parameters are not the network's.
        for parameter in self.uncertainty.parameters():
            assert parameter.grad is not None
            parameter.grad = total(parameter.grad) / total(torch.ones_like(parameter.grad[0]))

    def factors(self) -> Tensor:
        """e^(−u) [T]."""
        return torch.exp(-self.uncertainty.at(slice(None))).detach()


def objective_for(
    spec: ModelSpec, schedule: NoiseSchedule, weight: LossWeight | None = None, scale: float = 1.0
) -> Objective:
    """The loss that trains a model with one head, with its weights applied.

    Args:
        spec: of the model.
        schedule: its own, on the training device.
        weight: of timesteps; None: 1 everywhere.
        scale: of all weights.
    """
    table = None if weight is None else scale * weight_table(weight, spec.prediction, schedule.snr)
    objective = Hybrid(schedule, table) if spec.variance == "learned" else SingleHead(table)
    match weight:
        case RunningMean():
            bins = equal_log_snr(schedule, weight.bins, drop_empty=True)
            return OverRunningMean(objective, bins, weight.half_life_images, schedule.alpha.device)
        case LearnedUncertainty():
            return OverUncertainty(objective, Uncertainty(schedule))
    return objective
