"""The border of two experts that a profile suggests, beside others."""

import math
from dataclasses import dataclass

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import profile
from unequal.profiler.suggestion import Halves, Intervals, MeasuredProfile, Options, Suggestion, shown
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.partition import equal_sums

#: Wan 2.2's borders, times after the shift.
OF_WAN = {"Wan 2.2, text to video": 0.875, "Wan 2.2, image to video": 0.9}
BORDERS: dict[Halves, str] = {"timesteps": "halves over timesteps", "log_snr": "halves over log-SNR"}
DB_PER_NAT = 10 / math.log(10)


@dataclass(frozen=True)
class Border:
    """A boundary, and what it leaves to the expert at the noise end.

    Attributes:
        name: where it comes from.
        timestep: the first one of the expert at the noise end; T: it has none.
        timesteps: the share of all timesteps that it gets.
        loss: the share of ∫ L dλ that it gets.
    """

    name: str
    boundary: Boundary
    timestep: int
    timesteps: float
    loss: float


def halves(over: Halves, losses: np.ndarray, schedule: NoiseSchedule) -> Boundary:
    """The boundary that leaves half of the loss to each expert. Raises UserError where there is none over timesteps.

    Losses are of ε, [T]. Over log-SNR it is λ with half of ∫ L dλ on each side, by the trapezoidal rule. By I-MMSE
    ½·L dλ is the information of an observation, so that both experts learn equally much, in nats.
    """
    if over == "timesteps":
        return Boundary.at_timestep(equal_sums(losses, 2, "experts")[1].first, schedule)
    sums = profile(schedule, losses)
    return Boundary(float(np.interp(sums[-1] / 2, sums, schedule.snr.log().numpy())))


def borders(losses: np.ndarray, schedule: NoiseSchedule) -> list[Border]:
    """Borders of two equal sums over timesteps, of halves over log-SNR, and of others, in this order.

    Raises UserError where the losses have no two equal sums.
    """
    boundaries = {name: halves(over, losses, schedule) for over, name in BORDERS.items()}
    boundaries |= {name: Boundary.at_time(time) for name, time in OF_WAN.items()}
    sums, rising, listed = profile(schedule, losses), -schedule.snr.log().numpy(), []
    for name, limit in boundaries.items():
        below = float(np.interp(-limit.log_snr, rising, sums))
        timestep = limit.timestep(schedule)
        share, loss = 1 - timestep / schedule.timesteps, 1 - below / float(sums[-1])
        listed.append(Border(name, limit, timestep, share, loss))
    return listed


def boundary(measured: MeasuredProfile, asked: Options) -> Suggestion[Border]:
    """The border of two experts; the one that is not suggested withholds nothing."""
    schedule, k, listed = measured.schedule, measured.shift, borders(measured.losses, measured.schedule)
    by_name, intervals = {border.name: border for border in listed}, Intervals()
    for over, name in sorted(BORDERS.items(), key=lambda item: item[0] != asked.halves):

        def first(of: MeasuredProfile, over: Halves = over, name: str = name) -> dict[str, float]:
            return {name: halves(over, of.losses, schedule).timestep(schedule)}

        carried = measured.narrow if over == asked.halves else lambda *_: True
        intervals |= measured.intervals({name: by_name[name].timestep}, first, carried)

    def at(timestep: float) -> Boundary:
        return Boundary.at_timestep(round(timestep), schedule)

    times = {"s": 1.0} if k == 1 else {f"s before shift {k:.3g}": k, "s after": 1.0}
    rows = [
        (
            border.name,
            f"{shown(border.boundary.log_snr)} ({shown(border.boundary.log_snr * DB_PER_NAT)} dB)",
            *(
                f"{shown(border.boundary.time(shift))}"
                f"{intervals.around(border.name, lambda t, shift=shift: at(t).time(shift))}"  # type: ignore[misc]
                for shift in times.values()
            ),
            f"{border.timestep}{intervals.around(border.name)}",
            f"{border.timesteps:.1%}",
            f"{border.loss:.1%}",
        )
        for border in listed
    ]
    chosen = by_name[BORDERS[asked.halves]]
    figures = [
        {
            "name": border.name,
            "log_snr": border.boundary.log_snr,
            "time_before_shift": border.boundary.time(k),
            "time": border.boundary.time(),
            "timestep": border.timestep,
            "timesteps_at_noise_end": border.timesteps,
            "loss_at_noise_end": border.loss,
        }
        for border in listed
    ]
    return Suggestion(
        chosen,
        f"Boundary of two experts: λ = {shown(chosen.boundary.log_snr)}"
        f"{intervals.around(chosen.name, lambda t: at(t).log_snr)}, index {chosen.timestep}"
        f"{intervals.around(chosen.name)}",
        {"chosen": chosen.name, "borders": figures},
        [("by", "λ", *times, "index", "timesteps", "loss over λ"), *rows],
        intervals,
        f"It gives each expert half of the loss {chosen.name.removeprefix('halves ')}.",
        "Losses favour the data end, where details are; FID was not measured at this border.",
    )
