"""Exponential moving average of the weights, with a warm-up."""

import torch
from torch import Tensor, nn


class EMA:
    """Averaged copy of a network's parameters, kept in float32, or finer where they are.

    The decay rises as (1 + s)/(10 + s) with the number of updates s until it reaches its limit, so
    that short runs do not average in their first steps. No value is read back from the device.

    Args:
        net: whose parameters are followed; they are looked up once.
        decay: the limit.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.average = {
            name: value.detach().clone().to(torch.promote_types(value.dtype, torch.float32))
            for name, value in net.named_parameters()
        }
        self.parameters: list[Tensor] = list(net.parameters())

    @torch.no_grad()
    def update(self) -> None:
        """Take in the present parameters."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        torch._foreach_lerp_(list(self.average.values()), self.parameters, 1 - decay)

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
