"""What each timestep contributes to a sample (paper 1, Fig. 3).

While an image is sampled, the predicted x0 is replaced by the true one within a range of timesteps:
what that mends was spoiled there. All ranges share their noise, so that they differ in nothing else.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unequal.diffusion.ddim import ddim_step, previous_alphas_cumprod

#: Number of the run in which nothing is replaced.
UNREPLACED = -1


class Range(NamedTuple):
    """Timesteps first … last, counted from 0; the paper's [a, b] is a − 1 … b − 1."""

    first: int
    last: int

    @classmethod
    def counted_from_1(cls, first: int, last: int) -> "Range":
        """The range that the paper would write [first, last]."""
        return cls(first - 1, last - 1)

    def replaces(self, timestep: int) -> bool:
        """Whether x0 is known at this timestep; never at the last step, where the truth itself would come out."""
        return max(1, self.first) <= timestep <= self.last


def sliding_windows(timesteps: int, count: int, width: int) -> list[Range]:
    """Ranges of `width` timesteps, their beginnings spread evenly from the first to the last that fits into T."""
    firsts = [(timesteps - width) * i // max(1, count - 1) for i in range(count)]
    return [Range(first, first + width - 1) for first in firsts]


def replaced_samples(
    predict: Callable[[Tensor, int], Tensor],
    truth: Tensor,
    start: Tensor,
    noise: Callable[[int], Tensor],
    alphas_cumprod: Tensor,
    ranges: Sequence[Range],
) -> Tensor:
    """Samples at all T steps with DDPM's variance (η = 1), without replacement and with that of each range.

    A run is the unreplaced one until its range begins, and asks for no prediction within it: the cost is
    that of the steps below each range.

    Args:
        predict: (x_t, t) → x0; x_t holds the images of one or more runs, [k·B, C, H, W].
        truth: x0, [B, C, H, W].
        start: x_T, [B, C, H, W].
        noise: step number → [B, C, H, W].
        alphas_cumprod: ᾱ, [T].
        ranges: R of them.

    Returns:
        [1 + R, B, C, H, W]: the unreplaced run, then one a range.
    """
    timesteps = range(len(alphas_cumprod) - 1, -1, -1)
    runs = {UNREPLACED: start}
    for step, (t, previous) in enumerate(
        zip(timesteps, previous_alphas_cumprod(timesteps, alphas_cumprod), strict=True)
    ):
        runs |= {number: runs[UNREPLACED] for number, one in enumerate(ranges) if one.last == t}
        asked = [number for number in runs if number == UNREPLACED or not ranges[number].replaces(t)]
        answers = predict(torch.cat([runs[number] for number in asked]), t).chunk(len(asked))
        x0 = dict.fromkeys(runs, truth) | dict(zip(asked, answers, strict=True))
        added, ratio = noise(step), float(alphas_cumprod[t])
        runs = {number: ddim_step(x_t, x0[number], ratio, previous, 1.0, added) for number, x_t in runs.items()}
    return torch.stack([runs[number] for number in range(UNREPLACED, len(ranges))])
