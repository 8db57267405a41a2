"""What a network is to the formulas: a function of noisy images and their timesteps."""

from collections.abc import Callable
from typing import Protocol

from torch import Tensor


class Answer(Protocol):
    """What a network returns: `sample` [B, C, H, W], C as many channels as it has answers."""

    sample: Tensor


#: (noisy images [B, C, H, W], timesteps [B]) → Answer: a network, or one that has been told its condition.
NetworkFunction = Callable[..., Answer]
