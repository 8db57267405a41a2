"""Where two experts may meet: where each has half of the loss, beside borders that others train by."""

from dataclasses import dataclass

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import profile
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.partition import equal_sums

#: Wan 2.2's of text and of images to video, times after the shift.
OF_WAN = {"Wan 2.2, text to video": 0.875, "Wan 2.2, image to video": 0.9}


@dataclass(frozen=True)
class Border:
    """A boundary, and what it leaves to the expert at the noise end.

    Attributes:
        name: where it comes from.
        boundary: λ.
        timestep: the first one of the expert at the noise end; T: it has none.
        timesteps: the share of all timesteps that it gets.
        loss: the share of ∫ L dλ that it gets.
    """

    name: str
    boundary: Boundary
    timestep: int
    timesteps: float
    loss: float


def halves(losses: np.ndarray, schedule: NoiseSchedule) -> Boundary:
    """λ with half of ∫ L dλ on each side, by the trapezoidal rule.

    By I-MMSE ½·L dλ is what an observation tells of the image, so that both experts have as much to learn, in nats.

    Args:
        losses: of ε, [T].
        schedule: of the model.
    """
    told = profile(schedule, losses)
    return Boundary(float(np.interp(told[-1] / 2, told, schedule.snr.log().numpy())))


def borders(losses: np.ndarray, schedule: NoiseSchedule) -> list[Border]:
    """That of two equal sums over timesteps, that of halves over log-SNR, and those of others, in this order.

    Raises UserError where the losses have no two equal sums.
    """
    sums = equal_sums(losses, 2, "experts")
    found = {
        "halves over timesteps": Boundary.at_timestep(sums[1].first, schedule),
        "halves over log-SNR": halves(losses, schedule),
        **{name: Boundary.at_time(time) for name, time in OF_WAN.items()},
    }
    return [border(name, boundary, losses, schedule) for name, boundary in found.items()]


def border(name: str, boundary: Boundary, losses: np.ndarray, schedule: NoiseSchedule) -> Border:
    """A boundary with what it leaves to the expert at the noise end."""
    told, falling = profile(schedule, losses), -schedule.snr.log().numpy()
    below = float(np.interp(-boundary.log_snr, falling, told))
    timestep = boundary.timestep(schedule)
    return Border(name, boundary, timestep, 1 - timestep / schedule.timesteps, 1 - below / float(told[-1]))
