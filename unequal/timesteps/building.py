"""Timestep samplers by the settings of a recipe: names of densities and of draws, and what is made for each.

A further density is an entry of one of these tables, and a section of settings with its keys. `settings` are pairs of
keys and values, as a section of settings yields them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.densities import (
    DENSITIES,
    asymmetric,
    curriculum,
    gaussian_target,
    masses,
    mirror,
    noise_rate_target,
)
from unequal.timesteps.draws import Independent, LowDiscrepancy, Mirrored, Stratified, equal_over
from unequal.timesteps.information import InfoNoiseSampler
from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler, LossSecondMomentSampler
from unequal.timesteps.partition import Partition, TimestepSet, equal_log_snr
from unequal.timesteps.samplers import (
    ChangingSampler,
    TimestepSampler,
    even_over_log_snr,
    normalised,
    of_length,
    tilt,
    uniform,
    within,
)


@dataclass(frozen=True)
class BaseMeasurements:
    """What a sampler may need of the base: its profile, and slots of equal loss.

    Attributes:
        loss: mean loss of each timestep, [T].
        losses: loss of each draw, [T, n].
        slots: ranges of equal loss.
    """

    loss: np.ndarray | None = None
    losses: np.ndarray | None = None
    slots: Partition | None = None

    def of(self, name: str) -> Any:
        """A measurement. Raises UserError where it is not known."""
        if (value := getattr(self, name)) is None:
            raise UserError("needs the base's profile, and there is none")
        return value


UNKNOWN = BaseMeasurements()

#: How a batch is drawn: name → draw on a schedule, from a density that may have parts.
DRAWS: dict[str, Callable[[NoiseSchedule, Any], Independent]] = {
    "independent": lambda schedule, parts: Independent(),
    "low_discrepancy": lambda schedule, parts: LowDiscrepancy(),
    "mirrored": lambda schedule, parts: Mirrored(mirror(schedule)),
    "stratified": lambda schedule, parts: Stratified(parts),
}

#: Densities that do not change, besides those of `DENSITIES`: name → probabilities [T].
PROBABILITIES: dict[str, Callable[..., np.ndarray]] = {
    "uniform": lambda schedule, base: uniform(schedule.timesteps),
    "near_noise": lambda schedule, base, power: normalised(tilt(schedule.timesteps, power)),
    "near_data": lambda schedule, base, power: normalised(tilt(schedule.timesteps, power)[::-1]),
    "asymmetric": lambda schedule, base, boundary, ratio: asymmetric(schedule.timesteps, boundary, ratio),
    "loss": lambda schedule, base: normalised(of_length(base.of("loss"), schedule.timesteps)),
}

#: Densities with equal probability for each of several ranges: name → ranges.
PARTS: dict[str, Callable[..., Partition]] = {
    "slots": lambda schedule, base, ranges: (ranges or base.of("slots")).covering(schedule.timesteps),
}


def changing(
    schedule: NoiseSchedule,
    base: BaseMeasurements,
    draw: Independent,
    unbiased: bool,
    *,
    target: str,
    ramp_images: int,
    uniform_share: float,
    mean: float,
    std: float,
) -> TimestepSampler:
    """Paper 2's curriculum: from uniform to a target that favours the harder timesteps."""
    goal = gaussian_target(schedule.timesteps, mean, std) if target == "gaussian" else noise_rate_target(schedule)
    return ChangingSampler(curriculum(goal, ramp_images=ramp_images, uniform_share=uniform_share), unbiased, draw)


def easy_to_hard(
    schedule: NoiseSchedule,
    base: BaseMeasurements,
    draw: Independent,
    unbiased: bool,
    *,
    clusters: int,
    patience_images: int,
) -> TimestepSampler:
    """The difficulty curriculum over clusters of equal log-SNR."""
    return EasyToHardSampler(equal_log_snr(schedule, clusters, "clusters"), patience_images, draw)


def loss_second_moment(
    schedule: NoiseSchedule,
    base: BaseMeasurements,
    draw: Independent,
    unbiased: bool,
    *,
    warm_start: bool,
    **options: Any,
) -> TimestepSampler:
    """Improved-diffusion's, which may begin with the losses of the base's profile."""
    known = of_length(base.of("losses"), schedule.timesteps) if warm_start else None
    return LossSecondMomentSampler(schedule.timesteps, unbiased=unbiased, known=known, draw=draw, **options)


def adaptive(
    schedule: NoiseSchedule,
    base: BaseMeasurements,
    draw: Independent,
    unbiased: bool,
    *,
    bins: int | None,
    **options: Any,
) -> TimestepSampler:
    """Bins by the length of their gradients: of equal log-SNR, or the slots of equal loss."""
    parts = base.of("slots") if bins is None else equal_log_snr(schedule, bins, "bins")
    return AdaptiveSampler(parts.covering(schedule.timesteps), draw=draw, **options)


def info_noise(
    schedule: NoiseSchedule,
    base: BaseMeasurements,
    draw: Independent,
    unbiased: bool,
    *,
    bins: int,
    half_life_images: int,
    **options: Any,
) -> TimestepSampler:
    """InfoNoise's, from losses in bins of equal log-SNR."""
    parts, log_snr = equal_log_snr(schedule, bins, "bins", drop_empty=True), schedule.snr.log().numpy()
    return InfoNoiseSampler(log_snr, parts, half_life=half_life_images, draw=draw, **options)


#: Densities that change with the images trained on, or are learned while a network trains: name → sampler.
CHANGING: dict[str, Callable[..., TimestepSampler]] = {
    "curriculum": changing,
    "easy_to_hard": easy_to_hard,
    "loss_second_moment": loss_second_moment,
    "adaptive": adaptive,
    "info_noise": info_noise,
}


def build_sampler(
    settings: Iterable[tuple[str, Any]], schedule: NoiseSchedule, base: BaseMeasurements = UNKNOWN
) -> TimestepSampler:
    """The sampler of a training of all timesteps.

    Raises UserError where it cannot be made for this schedule, or from what is known of a base.
    """
    keys = dict(settings)
    density, draw, unbiased, scaled = (keys.pop(name) for name in ("density", "draw", "unbiased", "normalised"))
    try:
        drawn = partial(DRAWS[draw], schedule)
        if density in CHANGING:
            sampler = CHANGING[density](schedule, base, drawn(None), unbiased, **keys)
        elif density in PARTS:
            parts = PARTS[density](schedule, base, **keys)
            sampler = TimestepSampler(equal_over(parts), unbiased, drawn(parts))
        else:
            sampler = TimestepSampler(probabilities(density, schedule, base, keys), unbiased, drawn(None))
        sampler.known_loss = of_length(base.of("loss"), schedule.timesteps) if scaled else None
    except UserError as error:
        raise UserError(f"sampler.density: '{density}': {error}") from None
    return sampler


def probabilities(density: str, schedule: NoiseSchedule, base: BaseMeasurements, keys: dict[str, Any]) -> np.ndarray:
    """Probabilities [T] of a density that does not change. Raises UserError where it is for one range alone."""
    if density in DENSITIES:
        shift, ends = keys.pop("shift"), keys.pop("ends")
        return masses(partial(DENSITIES[density], **keys), schedule, shift, ends)
    if density not in PROBABILITIES:
        raise UserError("lies inside a range, and this training is of all timesteps")
    return PROBABILITIES[density](schedule, base, **keys)


def sampler_inside(
    settings: Iterable[tuple[str, Any]], trained: TimestepSet, schedule: NoiseSchedule
) -> TimestepSampler:
    """The sampler for a model of a range of timesteps, uniform or even over log-SNR. Raises UserError for others."""
    keys = dict(settings)
    if keys["density"] != "slot":
        raise UserError(f"sampler.density: '{keys['density']}' covers all timesteps; allowed inside a range: slot")
    density = within(trained, schedule.timesteps)
    if keys["intervals"] is not None:
        density = even_over_log_snr(density, schedule, keys["intervals"])
    return TimestepSampler(density, draw=DRAWS[keys["draw"]](schedule, None))
