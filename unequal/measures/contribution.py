"""What each timestep contributes to a sample (paper 1, Fig. 3).

While an image is sampled, the predicted x0 is replaced by the true one within a range of timesteps:
what that mends was spoiled there. All ranges share their noise, so that they differ in nothing else.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unequal.diffusion.ddim import ddim_step, steps_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.partition import TimestepRange

#: Number of the run in which nothing is replaced.
UNREPLACED = -1


def counted_from_1(first: int, last: int) -> TimestepRange:
    """The range that the paper would write [first, last]: its [a, b] is a − 1 … b − 1."""
    return TimestepRange(first - 1, last - 1)


def replaces(one: TimestepRange, timestep: int) -> bool:
    """Whether x0 is known at this timestep; never at the last step, where the truth itself would come out."""
    return timestep >= 1 and one.holds(timestep)


def sliding_windows(timesteps: int, count: int, width: int) -> list[TimestepRange]:
    """Ranges of `width` timesteps, their beginnings spread evenly from the first to the last that fits into T."""
    firsts = [(timesteps - width) * i // max(1, count - 1) for i in range(count)]
    return [TimestepRange(first, first + width - 1) for first in firsts]


def replaced_samples(
    predict: Callable[[Tensor, int], Tensor],
    truth: Tensor,
    start: Tensor,
    noise: Callable[[int], Tensor],
    schedule: NoiseSchedule,
    ranges: Sequence[TimestepRange],
) -> Tensor:
    """Samples at all T steps with DDPM's variance (η = 1), without replacement and with that of each range.

    A run is the unreplaced one until its range begins, and asks for no prediction within it: the cost is
    that of the steps below each range.

    Args:
        predict: (x_t, t) → x0; x_t holds the images of one or more runs, [k·B, C, H, W].
        truth: x0, [B, C, H, W].
        start: x_T, [B, C, H, W].
        noise: step number → [B, C, H, W].
        schedule: gives α and σ of all T timesteps.
        ranges: R of them.

    Returns:
        [1 + R, B, C, H, W]: the unreplaced run, then one a range.
    """
    runs = {UNREPLACED: start}
    for step, (t, now, after) in enumerate(steps_of(range(schedule.timesteps)[::-1], schedule)):
        runs |= {number: runs[UNREPLACED] for number, one in enumerate(ranges) if one.last == t}
        asked = [number for number in runs if number == UNREPLACED or not replaces(ranges[number], t)]
        answers = predict(torch.cat([runs[number] for number in asked]), t).chunk(len(asked))
        x0 = dict.fromkeys(runs, truth) | dict(zip(asked, answers, strict=True))
        added = noise(step)
        runs = {number: ddim_step(x_t, x0[number], now, after, 1.0, added) for number, x_t in runs.items()}
    return torch.stack([runs[number] for number in range(UNREPLACED, len(ranges))])
