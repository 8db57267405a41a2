"""Boundaries between two experts in all the units in which people tell them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unequal.comparison.results import Found
from unequal.comparison.settings import Comparison, Contrast
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import spaced_timesteps
from unequal.measures.loss_profile import endpoints
from unequal.settings.evaluation import Sampling
from unequal.settings.groups import ByTimesteps, Plan, TwoGroups
from unequal.settings.schedule import FlowSchedule
from unequal.timesteps.boundary import Boundary

#: Wan 2.2's, by the time after the shift from which its expert for noise is asked (its configurations of text to video
#: and of image to video).
WAN = {"Wan 2.2, text to video": Boundary.at_time(0.875), "Wan 2.2, image to video": Boundary.at_time(0.9)}
#: λ in decibels is so many times λ in nats.
DECIBELS = 10 / np.log(10)


class Border(NamedTuple):
    """A boundary on the study's schedule.

    Attributes:
        name: of the arm, or of whom it is published by.
        log_snr: λ, natural.
        timestep: the first of the expert at the noise end.
        shifted, unshifted: the time s of the flow after and before the schedule's shift.
        noise_steps: share of the sampling steps that the expert at the noise end takes.
        noise_mass: share of uniformly drawn timesteps that are its own.
        by_timesteps: whether experts train on images in proportion to their timesteps; else on as many each.
    """

    name: str
    log_snr: float
    timestep: int
    shifted: float
    unshifted: float
    noise_steps: float
    noise_mass: float
    by_timesteps: bool

    @property
    def decibels(self) -> float:
        """λ in dB."""
        return float(DECIBELS * self.log_snr)


def steps_of(sampling: Sampling, schedule: FlowSchedule) -> list[int]:
    """Timesteps of the sampling steps, falling."""
    return spaced_timesteps(sampling.steps, schedule.tables(), sampling.spacing)


def border(
    name: str, boundary: Boundary, schedule: FlowSchedule, steps: Sequence[int], by_timesteps: bool = False
) -> Border:
    """A boundary on a schedule, which is sampled at these timesteps."""
    first = boundary.timestep(schedule.tables())
    return Border(
        name,
        boundary.log_snr,
        first,
        boundary.time(),
        boundary.time(schedule.shift),
        float(np.mean(np.array(steps) >= first)),
        1 - first / schedule.timesteps,
        by_timesteps,
    )


def borders(plans: Mapping[str, Plan], schedule: FlowSchedule, steps: Sequence[int]) -> list[Border]:
    """Those of all plans that have one, from the data end to the noise end."""
    found = [
        border(name, Boundary(plan.groups.log_snr), schedule, steps, isinstance(plan.allocation, ByTimesteps))
        for name, plan in plans.items()
        if isinstance(plan.groups, TwoGroups)
    ]
    return sorted(found, key=lambda one: (-one.log_snr, one.by_timesteps))


def planned(told: Sequence[Border], blocks: Comparison) -> dict[str, Contrast]:
    """Arm → its comparison with the joint model, or, with images by timesteps, with the same boundary and as many each.

    The latter differ in how images are shared out alone. What is not planned is left out.
    """
    alike = {one.log_snr: one.name for one in told if not one.by_timesteps}
    controls = {one.name: alike.get(one.log_snr) if one.by_timesteps else blocks.repeated.control for one in told}
    return {one.arm: one for one in blocks.compared if controls.get(one.arm) == one.control}


def loss_shares(found: Found, schedule: NoiseSchedule, first: int) -> tuple[float, float]:
    """How much of the joint model's held-out loss of ε lies from a timestep on: of that over timesteps, and over λ.

    By the bins of its curve, as if the loss were level in each.
    """
    lengths = np.diff([*found.any["curve"]["first"], found.timesteps])
    losses = np.repeat(found.curves(found.blocks.repeated.control).mean(0), lengths)
    told = endpoints(schedule)
    parts = [losses * told[name].weights for name in ("loss_over_timesteps", "loss_over_log_snr")]
    over_timesteps, over_log_snr = (float(one[first:].sum() / one.sum()) for one in parts)
    return over_timesteps, over_log_snr


def published(schedule: FlowSchedule, steps: Sequence[int]) -> list[Border]:
    """Those of others, on this schedule."""
    return [border(name, boundary, schedule, steps) for name, boundary in WAN.items()]
