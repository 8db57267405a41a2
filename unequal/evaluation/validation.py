"""A validation loss that can be compared: fixed images, noise and timesteps, and a figure of its own resolution.

Losses of single timesteps differ by orders of magnitude, so that a loss at random ones is mostly noise, and one at a
single one says nothing of the others. Here image i is always met with the same noise at the same point, and points are
strata: image i belongs to stratum i mod K. The loss is the mean of the strata's means, and two models that are met with
the same draws are compared by paired differences, which are far sharper than either loss.

A point is given by (α, σ) and the timestep that networks take, so that it need be none of the schedule's timesteps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.predictions import add_noise, squared_error, target
from unequal.diffusion.schedule import NoiseSchedule, at
from unequal.errors import UserError
from unequal.evaluation.loss_profile import LossProfile, relative_change
from unequal.randomness import Stream, noise_of, numpy_generator

#: Two-sided level, and the probability to find what is looked for, by which images are counted.
LEVEL, POWER = 0.05, 0.8

#: (x_t, timestep, further arguments) → the network's prediction, or an object with the attribute `sample`.
Network = Callable[..., Any]


@dataclass(frozen=True)
class Points:
    """Points at which images are noised: image i at point i, of stratum i mod K.

    Attributes:
        alpha, sigma: [n], float64.
        model_timesteps: [n], the timesteps that a network takes.
        strata: K.
    """

    alpha: Tensor
    sigma: Tensor
    model_timesteps: Tensor
    strata: int

    @classmethod
    def stratified(cls, schedule: NoiseSchedule, images: int, strata: int = 32, seed: int = 0) -> Self:
        """K equally long stretches of the timesteps, within which each image has a timestep of its own.

        Args:
            schedule: that of the training.
            images: n, a multiple of K, at least 2·K.
            strata: K, at most T.
            seed: of the timesteps.

        Raises:
            UserError: numbers that do not fit.
        """
        if not 1 <= strata <= schedule.timesteps:
            raise UserError(f"{strata} strata of {schedule.timesteps} timesteps; allowed: 1 … {schedule.timesteps}")
        if images % strata or images < 2 * strata:
            raise UserError(
                f"{images} images for {strata} strata; allowed: a multiple of {strata} from {2 * strata} on, such as "
                f"{max(2, round(images / strata)) * strata}"
            )
        generator = numpy_generator(seed, Stream.VALIDATION_TIMESTEPS)
        within = (np.arange(images) % strata + generator.random(images)) / strata
        last = schedule.timesteps - 1  # a share that rounds to 1 lies in no timestep
        timesteps = torch.from_numpy((within * schedule.timesteps).astype(np.int64).clip(max=last))
        tables = schedule.to("cpu")
        return cls(tables.alpha[timesteps], tables.sigma[timesteps], tables.model_timestep(timesteps), strata)

    def __len__(self) -> int:
        return len(self.model_timesteps)


@dataclass(frozen=True)
class Validated:
    """Result of a validation.

    Attributes:
        errors: mean squared errors of the prediction, per value, [K, n/K]: a row for each stratum.
    """

    errors: np.ndarray

    @property
    def strata(self) -> LossProfile:
        """Each stratum's mean and standard error, [K]. Raises UserError where an error is not finite."""
        return LossProfile.of(self.errors)

    @property
    def loss(self) -> float:
        return float(self.strata.mean.mean())

    @property
    def stderr(self) -> float:
        return float(np.sqrt(np.square(self.strata.stderr).sum()) / len(self.errors))

    def change_from(self, before: "Validated") -> tuple[float, float]:
        """The relative change of the loss from one model to this one on the same draws, and its standard error."""
        return relative_change(before.errors, self.errors)

    def images_to_resolve(self, difference: float, before: "Validated | None" = None) -> int:
        """Images that resolve a relative difference of the loss, by the scatter of this validation.

        So many that a difference of this size is found in four of five cases at a level of 5 %, two-sided:
        n = n₀·((z_0.975 + z_0.8)·e/difference)², e the standard error with the n₀ images at hand.

        Args:
            difference: of the loss as a share of it; 0.01 is one per cent.
            before: of another model on the same draws, with which it is paired; None: two models on draws of their own,
                equal in scatter.

        Raises:
            UserError: a difference of 0 or below, or two validations that are not of the same draws.
        """
        if not difference > 0:
            raise UserError(f"a difference of {difference}; allowed: above 0, as a share of the loss")
        error = np.sqrt(2) * self.stderr / self.loss if before is None else self.change_from(before)[1]
        normal = NormalDist()
        factor = (normal.inv_cdf(1 - LEVEL / 2) + normal.inv_cdf(POWER)) * error / difference
        strata = len(self.errors)
        return max(2, ceil(self.errors.size * factor**2 / strata)) * strata


@dataclass(frozen=True)
class Validation:
    """A loss on fixed draws: the same images, noise and points at each call.

    Attributes:
        points: where images are met.
        prediction: of the network: `epsilon`, `v_prediction`, `sample` or `velocity`.
        seed: of the noise.
    """

    points: Points
    prediction: str
    seed: int = 0

    def noise(self, first: int, like: Tensor) -> Tensor:
        """ε of the images from a number on, [B, …]: however batches are cut, the same."""
        ids = range(first, first + len(like))
        return noise_of(like.shape[1:], ids, self.seed, Stream.VALIDATION_NOISE, device=like.device).to(like)

    def errors(self, net: Network, x0: Tensor, first: int, **arguments: Any) -> Tensor:
        """Mean squared errors [B] of the images x0 [B, …] numbered from `first` on.

        Args:
            net: (x_t, timestep, …) → its prediction.
            x0: as in the network's training: images in [−1, 1], or scaled latents.
            first: number of the first one.
            arguments: further arguments of the network, such as labels or embeddings of these images.
        """
        own = torch.arange(first, first + len(x0))
        alpha, sigma = at(self.points.alpha, own, x0), at(self.points.sigma, own, x0)
        epsilon = self.noise(first, x0)
        answer = net(add_noise(x0, epsilon, alpha, sigma), self.points.model_timesteps[own].to(x0.device), **arguments)
        predicted = answer if isinstance(answer, Tensor) else answer.sample
        return squared_error(target(self.prediction, x0, epsilon, alpha, sigma), predicted)

    def __call__(self, net: Network, images: Tensor, batch_size: int = 64, **arguments: Tensor) -> Validated:
        """Validate a network, as it is when nothing is dropped out.

        Args:
            net: a module, or any function of (x_t, timestep, …).
            images: [n or more, …] in their fixed order, on the network's device; those beyond n are left out.
            batch_size: images at once.
            arguments: further arguments of the network, [n or more, …] each.

        Raises:
            UserError: fewer images than points.
        """
        return self.validated(self.measured(net, images, range(len(self.points)), batch_size, **arguments))

    @torch.no_grad()
    def measured(self, net: Network, images: Tensor, share: range, batch_size: int, **arguments: Tensor) -> Tensor:
        """Errors of a share of the images, numbered through; 0 for those of others, [n] on their device."""
        if len(images) < len(self.points):
            raise UserError(f"{len(images)} images for {len(self.points)} points of validation; allowed: as many")
        errors = torch.zeros(len(self.points), device=images.device)
        with evaluating(net):
            for first in range(share.start, share.stop, batch_size):
                own = slice(first, min(first + batch_size, share.stop))
                errors[own] = self.errors(
                    net, images[own], first, **{name: one[own] for name, one in arguments.items()}
                )
        return errors

    def validated(self, errors: Tensor) -> Validated:
        return Validated(errors.double().cpu().numpy().reshape(-1, self.points.strata).T)


@contextmanager
def evaluating(net: Network) -> Iterator[None]:
    """A network without dropout, for as long as this lasts; of what is no module nothing is known."""
    if not isinstance(net, nn.Module):
        yield
        return
    trained = net.training
    net.eval()
    try:
        yield
    finally:
        net.train(trained)
