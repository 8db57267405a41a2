"""The border of two experts that a profile suggests, beside others."""

import math
from dataclasses import asdict, dataclass

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
    """A boundary, the first timestep of the expert at the noise end (T: it has none), and what that expert gets.

    Attributes:
        name: where it comes from.
        time, time_before_shift: s after a flow's shift and before it.
        timesteps_at_noise_end: share of all timesteps.
        loss_at_noise_end: share of ∫ L dλ.
    """

    name: str
    log_snr: float
    time_before_shift: float
    time: float
    timestep: int
    timesteps_at_noise_end: float
    loss_at_noise_end: float

    @property
    def boundary(self) -> Boundary:
        return Boundary(self.log_snr)


def halves(over: Halves, losses: np.ndarray, schedule: NoiseSchedule) -> Boundary:
    """The boundary that leaves half of the loss to each expert. Raises UserError where there is none over timesteps.

    Losses are of ε, [T]. Over log-SNR it is λ with half of ∫ L dλ on each side, by the trapezoidal rule. By I-MMSE
    ½·L dλ is the information of an observation, so that both experts learn equally much, in nats.
    """
    if over == "timesteps":
        return Boundary.at_timestep(equal_sums(losses, 2, "experts")[1].first, schedule)
    sums = profile(schedule, losses)
    return Boundary(float(np.interp(sums[-1] / 2, sums, schedule.snr.log().numpy())))


def borders(losses: np.ndarray, schedule: NoiseSchedule, shift: float = 1.0) -> list[Border]:
    """Borders of two equal sums over timesteps, of halves over log-SNR, and of others, in this order.

    Raises UserError where the losses have no two equal sums.
    """
    boundaries = {name: halves(over, losses, schedule) for over, name in BORDERS.items()}
    boundaries |= {name: Boundary.at_time(time) for name, time in OF_WAN.items()}
    sums, rising, listed = profile(schedule, losses), -schedule.snr.log().numpy(), []
    for name, limit in boundaries.items():
        below, timestep = float(np.interp(-limit.log_snr, rising, sums)), limit.timestep(schedule)
        times = (limit.time(shift), limit.time(), timestep)
        shares = (1 - timestep / schedule.timesteps, 1 - below / float(sums[-1]))
        listed.append(Border(name, limit.log_snr, *times, *shares))
    return listed


def boundary(measured: MeasuredProfile, asked: Options) -> Suggestion[Border]:
    """The border of two experts; the one that is not suggested withholds nothing."""
    schedule, k, listed = measured.schedule, measured.shift, borders(measured.losses, measured.schedule, measured.shift)
    by_name, intervals = {border.name: border for border in listed}, Intervals()
    for over, name in BORDERS.items():

        def first(of: MeasuredProfile, over: Halves = over, name: str = name) -> dict[str, float]:
            return {name: halves(over, of.losses, schedule).timestep(schedule)}

        carried = measured.narrow if over == asked.halves else lambda *_: True
        intervals |= measured.intervals({name: by_name[name].timestep}, first, carried)

    def at(timestep: float) -> Boundary:
        return Boundary.at_timestep(round(timestep), schedule)

    def row(border: Border) -> tuple[str, ...]:
        log_snr, at_timestep = border.log_snr, intervals.around(border.name)
        before = shown(border.time_before_shift) + intervals.around(border.name, lambda t: at(t).time(k))
        after = shown(border.time) + intervals.around(border.name, lambda t: at(t).time())
        return (
            border.name,
            f"{shown(log_snr)} ({shown(log_snr * DB_PER_NAT)} dB)",
            *((after,) if k == 1 else (before, after)),
            f"{border.timestep}{at_timestep}",
            f"{border.timesteps_at_noise_end:.1%}",
            f"{border.loss_at_noise_end:.1%}",
        )

    times = ("s",) if k == 1 else (f"s before shift {k:.3g}", "s after")
    chosen = by_name[BORDERS[asked.halves]]
    return Suggestion(
        chosen,
        f"Boundary of two experts: λ = {shown(chosen.log_snr)}"
        f"{intervals.around(chosen.name, lambda t: at(t).log_snr)}, index {chosen.timestep}"
        f"{intervals.around(chosen.name)}",
        {"chosen": chosen.name, "borders": list(map(asdict, listed))},
        [("by", "λ", *times, "index", "timesteps", "loss over λ"), *map(row, listed)],
        intervals,
        f"It gives each expert half of the loss {chosen.name.removeprefix('halves ')}.",
        "Losses favour the data end, where details are; FID was not measured at this border.",
    )
