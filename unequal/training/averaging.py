"""Averages of weights: exponential ones of a fixed horizon, and EDM2's, whose width is a share of the training so far.

An exponential average of fixed horizon hides what a short training has learned and forgets what a long one has. EDM2's
(2312.02696, section 3 and appendix C), θ̂(t) = (γ+1)/t^(γ+1) · ∫₀ᵗ τ^γ θ(τ) dτ, weights every point of a training by a
power of its progress, so that 50 and 5,000 steps are averaged equally. The relative width σ is the standard deviation
of that profile on [0, 1]. Averages of other widths can be made afterwards from stored snapshots.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.settings.training import WIDEST, Average, PowerAverage
from unequal.training.checkpoint import add_prefix, strip_prefix

#: Share of the average that the t-th update keeps, t ≥ 1.
KeptShare = Callable[[int], float]
#: Relative widths of the averages from which others are made afterwards, as EDM2 has them (appendix C).
KEPT_WIDTHS = (0.05, 0.1)


def warmed_up(update: int, limit: float) -> float:
    """Share that an exponential average keeps: t/(9 + t) up to its limit; short runs soon forget their start."""
    return min(limit, update / (9 + update))


def of_width(width: float) -> KeptShare:
    """The power-function average of a relative width."""
    return partial(decay, exponent=exponent_of(width))


def kept_share(settings: Average) -> KeptShare:
    """Share of the old average that an update keeps, by the settings."""
    if isinstance(settings, PowerAverage):
        return of_width(settings.width)
    return partial(warmed_up, limit=settings.decay)


class AveragedWeights:
    """Averaged copy of a network's parameters, stored in float32, or finer where they are.

    No value is read back from the device.
    """

    def __init__(self, net: nn.Module, kept: KeptShare) -> None:
        self.kept = kept
        self.updates = 0
        self.average = {
            name: value.detach().clone().to(torch.promote_types(value.dtype, torch.float32))
            for name, value in net.named_parameters()
        }

    @torch.no_grad()
    def update(self, weights: tuple[Tensor, ...]) -> None:
        """Take in weights, in the order of the network's parameters."""
        self.updates += 1
        torch._foreach_lerp_(list(self.average.values()), weights, 1 - self.kept(self.updates))

    @torch.no_grad()
    def copy_to(self, net: nn.Module) -> None:
        for name, value in net.named_parameters():
            value.copy_(self.average[name])

    def state_dict(self) -> dict[str, Tensor]:
        return self.average

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor], updates: int) -> None:
        self.updates = updates
        for name, value in self.average.items():
            value.copy_(state[name])


class Averages:
    """All averages of a training: the one that it ends with and, where settings store some, those of KEPT_WIDTHS."""

    def __init__(self, net: nn.Module, settings: Average) -> None:
        self.main = AveragedWeights(net, kept_share(settings))
        self.count = settings.keep or 0 if isinstance(settings, PowerAverage) else 0
        widths = KEPT_WIDTHS if self.count else ()
        self.kept = {str(width): AveragedWeights(net, of_width(width)) for width in widths}

    def update(self, weights: tuple[Tensor, ...]) -> None:
        for one in (self.main, *self.kept.values()):
            one.update(weights)

    def state_dict(self) -> dict[str, Tensor]:
        return add_prefix("average.", self.main.state_dict()) | self.snapshot_tensors()

    def snapshot_steps(self, steps: int) -> list[int]:
        """Optimizer steps after which the averages of KEPT_WIDTHS are stored: evenly spaced, the last step included."""
        return [-(-steps * point // self.count) for point in range(1, self.count + 1)]

    def snapshot_tensors(self) -> dict[str, Tensor]:
        """Averages of KEPT_WIDTHS, by name: `width.<width>.<parameter>`."""
        return {
            name: value
            for width, one in self.kept.items()
            for name, value in add_prefix(f"width.{width}.", one.state_dict()).items()
        }

    def load_state_dict(self, state: dict[str, Tensor], updates: int) -> None:
        self.main.load_state_dict(strip_prefix("average.", state), updates)
        for width, one in self.kept.items():
            one.load_state_dict(strip_prefix(f"width.{width}.", state), updates)


class PowerProfile(NamedTuple):
    """Profile of an average: the point t at which it was stored (steps or images) and its exponent γ."""

    time: float
    exponent: float


def exponent_of(width: float) -> float:
    """γ of a relative width σ: the root of σ² = (γ+1)/((γ+2)²(γ+3)); 6.94 for 0.1, 16.97 for 0.05.

    Raises:
        UserError: a width outside (0, 1/√12].
    """
    if not 0 < width <= WIDEST:
        raise UserError(f"a relative width of {width:g}; allowed: above 0, at most {WIDEST:.4f}, a mean over all steps")
    inverse = width**-2
    roots = np.roots([1, 7, 16 - inverse, 12 - inverse])
    return float(max(roots.real.max(), 0.0))


def decay(updates: int, exponent: float) -> float:
    """Share β = (1 − 1/t)^(γ+1) of the old average that the t-th update keeps, t ≥ 1; the first one keeps none."""
    return float((1 - 1 / updates) ** (exponent + 1))


def product(one: PowerProfile, other: PowerProfile) -> float:
    """∫ p·q of two profiles p(τ) = (γ+1)·τ^γ/t^(γ+1) on [0, t]."""
    (first, a), (second, b) = sorted((one, other))
    return (a + 1) * (b + 1) / (a + b + 1) * (first / second) ** b / second


def combination(kept: Sequence[PowerProfile], wanted: PowerProfile) -> np.ndarray:
    """Weights [n] that approximate an average that was not stored by snapshots of others, by least squares on [0, t].

    The sum of weights × snapshots comes nearest to the wanted profile. The weights are scaled to a sum of 1, so that
    what no step has changed stays as it is.

    Raises:
        UserError: no snapshot, or the wanted one lies beyond the last of them.
    """
    if not kept or wanted.time > max(profile.time for profile in kept):
        raise UserError(f"an average at {wanted.time:g} from snapshots at {[profile.time for profile in kept]}")
    weights = np.linalg.lstsq(products(kept, kept), products(kept, [wanted])[:, 0], rcond=None)[0]
    return weights / weights.sum()


def relative_error(kept: Sequence[PowerProfile], wanted: PowerProfile, weights: np.ndarray) -> float:
    """Relative error, in the mean square, of weights × stored profiles as an approximation of the wanted one."""
    approximation, exact = weights @ products(kept, kept) @ weights, product(wanted, wanted)
    return float(max(0, approximation - 2 * weights @ products(kept, [wanted])[:, 0] + exact) / exact) ** 0.5


def products(rows: Sequence[PowerProfile], columns: Sequence[PowerProfile]) -> np.ndarray:
    """∫ p·q of every pair, [rows, columns]."""
    return np.array([[product(one, other) for other in columns] for one in rows])
