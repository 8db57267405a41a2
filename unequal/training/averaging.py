"""Averages of a network's weights over its training: of a fixed horizon, or of a share of how far it has come.

The average of a training that goes on from a model begins anew with it. What the parent's average weighs is a share of
the parent's length; carried on, the steps of a shorter continuation would count for next to nothing in it, and what
they have learned would not show.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from unequal.settings.average import Average, PowerAverage
from unequal.training.checkpoint import below, prefixed
from unequal.training.power_average import decay, exponent_of

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
    """What an average keeps, as the settings say."""
    if isinstance(settings, PowerAverage):
        return of_width(settings.width)
    return partial(warmed_up, limit=settings.decay)


class AveragedWeights:
    """Averaged copy of a network's parameters, kept in float32, or finer where they are.

    No value is read back from the device.

    Args:
        net: whose parameters are followed; they are looked up once.
        kept: share of the average that an update keeps.
    """

    def __init__(self, net: nn.Module, kept: KeptShare) -> None:
        self.kept = kept
        self.updates = 0
        self.average = {
            name: value.detach().clone().to(torch.promote_types(value.dtype, torch.float32))
            for name, value in net.named_parameters()
        }
        self.parameters: list[Tensor] = list(net.parameters())

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present parameters."""
        self.updates += 1
        torch._foreach_lerp_(list(self.average.values()), self.parameters, 1 - self.kept(self.updates))

    @torch.no_grad()
    def copy_to(self, net: nn.Module) -> None:
        """Put the average into a network."""
        for name, value in net.named_parameters():
            value.copy_(self.average[name])

    def state_dict(self) -> dict[str, Tensor]:
        """The average by parameter name."""
        return self.average

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor], updates: int) -> None:
        """Go on from a saved average."""
        self.updates = updates
        for name, value in self.average.items():
            value.copy_(state[name])


class Averages:
    """All averages of a training: the one that it ends with, and where some are to be kept those of KEPT_WIDTHS.

    Args:
        net: whose parameters are followed.
        settings: of the average that the training ends with.
    """

    def __init__(self, net: nn.Module, settings: Average) -> None:
        self.main = AveragedWeights(net, kept_share(settings))
        self.count = settings.keep or 0 if isinstance(settings, PowerAverage) else 0
        widths = KEPT_WIDTHS if self.count else ()
        self.kept = {str(width): AveragedWeights(net, of_width(width)) for width in widths}

    def update(self) -> None:
        """Take in the present parameters."""
        for one in (self.main, *self.kept.values()):
            one.update()

    def state_dict(self) -> dict[str, Tensor]:
        """All averages, as tensors of one checkpoint."""
        return prefixed("average.", self.main.state_dict()) | self.kept_tensors()

    def points(self, steps: int) -> list[int]:
        """Optimizer steps after which those of KEPT_WIDTHS are kept: evenly spaced, the last of all among them."""
        return [-(-steps * point // self.count) for point in range(1, self.count + 1)]

    def kept_tensors(self) -> dict[str, Tensor]:
        """Those of KEPT_WIDTHS: `width.<width>.<parameter>`."""
        return {
            name: value
            for width, one in self.kept.items()
            for name, value in prefixed(f"width.{width}.", one.state_dict()).items()
        }

    def load_state_dict(self, state: dict[str, Tensor], updates: int) -> None:
        """Go on from saved averages."""
        self.main.load_state_dict(below("average.", state), updates)
        for width, one in self.kept.items():
            one.load_state_dict(below(f"width.{width}.", state), updates)
