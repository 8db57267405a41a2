"""A validation loss that can be compared: fixed images, noise and timesteps, and a figure of its own resolution.

Losses of single timesteps differ by orders of magnitude, so that a loss at random ones is mostly noise, and one at a
single one says nothing of the others. Here image i always has the same noise and the same timestep, of stratum i mod K.
The loss is the mean of the strata's means, and two models are compared by paired differences of the same draws, which
are far sharper than either loss.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.evaluation.loss_profile import LossProfile, relative_change
from unequal.models.denoiser import Denoiser
from unequal.randomness import Stream, noise_of, numpy_generator

#: Two-sided level, and the probability to find what is looked for, by which images are counted.
LEVEL, POWER = 0.05, 0.8


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
    """A loss on fixed draws: the same images, noise and timesteps at each call.

    Attributes:
        timesteps: of the images, [n] int64; image i is of stratum i mod K.
        strata: K.
        seed: of the noise.
    """

    timesteps: Tensor
    strata: int
    seed: int = 0

    @classmethod
    def stratified(cls, timesteps: int, images: int, strata: int = 32, seed: int = 0) -> Self:
        """K equally long stretches of the timesteps, within which each image has a timestep of its own.

        Args:
            timesteps: T.
            images: n, a multiple of K, at least 2·K.
            strata: K, at most T.
            seed: of timesteps and noise.

        Raises:
            UserError: numbers that do not fit.
        """
        if not 1 <= strata <= timesteps:
            raise UserError(f"{strata} strata of {timesteps} timesteps; allowed: 1 … {timesteps}")
        if images % strata or images < 2 * strata:
            raise UserError(
                f"{images} images for {strata} strata; allowed: a multiple of {strata} from {2 * strata} on, such as "
                f"{max(2, round(images / strata)) * strata}"
            )
        generator = numpy_generator(seed, Stream.VALIDATION_TIMESTEPS)
        within = (np.arange(images) % strata + generator.random(images)) / strata
        # A share that rounds to 1 lies in no timestep.
        return cls(torch.from_numpy((within * timesteps).astype(np.int64).clip(max=timesteps - 1)), strata, seed)

    def __call__(self, denoiser: Denoiser, images: Tensor, batch_size: int = 64, **arguments: Tensor) -> Validated:
        """Validate a network, as it is when nothing is dropped out.

        Args:
            denoiser: of the network.
            images: [n or more, …] in their fixed order, on the network's device: in [−1, 1], or scaled latents; those
                beyond n are left out.
            batch_size: images at once.
            arguments: further arguments of the network, [n or more, …] each, such as labels or embeddings.

        Raises:
            UserError: fewer images than timesteps, or timesteps beyond the denoiser's.
        """
        return self.validated(self.measured(denoiser, images, range(len(self.timesteps)), batch_size, **arguments))

    @torch.no_grad()
    def measured(
        self, denoiser: Denoiser, images: Tensor, share: range, batch_size: int, **arguments: Tensor
    ) -> Tensor:
        """Errors of a share of the images, numbered through; 0 for those of others, [n] on their device."""
        count, known = len(self.timesteps), denoiser.schedule.timesteps
        if len(images) < count:
            raise UserError(f"{len(images)} images for {count} timesteps of validation; allowed: as many")
        if (last := int(self.timesteps.max())) >= known:
            raise UserError(f"validation at timestep {last} of a denoiser of {known} timesteps")
        errors, timesteps = torch.zeros(count, device=images.device), self.timesteps.to(images.device)
        with evaluating(denoiser.net):
            for first in range(share.start, share.stop, batch_size):
                ids = range(first, min(first + batch_size, share.stop))
                own = slice(ids.start, ids.stop)
                x0 = images[own]
                noise = noise_of(x0.shape[1:], ids, self.seed, Stream.VALIDATION_NOISE, device=x0.device).to(x0)
                given = denoiser.given(**{name: rows[own] for name, rows in arguments.items()})
                errors[own] = given.losses(x0, noise, timesteps[own])
        return errors

    def validated(self, errors: Tensor) -> Validated:
        """The result of errors of all images, [n]."""
        return Validated(errors.double().cpu().numpy().reshape(-1, self.strata).T)


@contextmanager
def evaluating(net: Any) -> Iterator[None]:
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
