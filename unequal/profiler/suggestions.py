"""What a profile suggests: slots, a density, γ, the border of two experts, sampling steps."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import rescaled_profile, sampling_timesteps, spaced_timesteps
from unequal.errors import UserError
from unequal.profiler.border import Border, boundary
from unequal.profiler.density import Density, density
from unequal.profiler.suggestion import Interval, MeasuredProfile, Options, Suggestion, shown
from unequal.timesteps.information import information
from unequal.timesteps.partition import Partition, equal_sums

#: Values of γ that are compared, in equal steps of its logarithm between the schedule's SNRs.
COMPARED = 1001
#: Largest ratio of an interval's ends with which γ is still suggested.
WIDEST_RATIO = 4.0


def slots(measured: MeasuredProfile, asked: Options) -> Suggestion[Partition]:
    """Ranges of equal loss."""

    def starts(of: MeasuredProfile) -> dict[str, float]:
        ranges = equal_sums(of.losses_in(asked.space), asked.slots)
        return {f"start of slot {number}": slot.first for number, slot in enumerate(ranges, 1) if number > 1}

    losses, snr = measured.losses_in(asked.space), measured.schedule.snr_db.numpy()
    ranges = equal_sums(losses, asked.slots)
    intervals = measured.intervals(starts(measured), starts, measured.narrow)
    rows = [
        (
            str(number),
            f"{slot.first}{intervals.around(f'start of slot {number}')}",
            str(slot.last),
            f"{snr[slot.first]:.1f} … {snr[slot.last]:.1f}",
            f"{share:.1%}",
        )
        for number, (slot, share) in enumerate(zip(ranges, ranges.shares_of(losses), strict=True), 1)
    ]
    equal = Partition([(0, len(losses) - 1)]).split(len(ranges)).shares_of(losses)
    return Suggestion(
        ranges,
        f"{len(ranges)} slots of equal loss in {asked.space}",
        {"ranges": [list(slot) for slot in ranges]},
        [("slot", "first timestep", "last", "SNR in dB", "share of loss"), *rows],
        intervals,
        f"{len(ranges)} ranges of equally many timesteps have from {equal.min():.1%} to {equal.max():.1%} of the loss.",
        "Slots even out losses, not gradients.",
    )


@dataclass(frozen=True)
class EvenGamma:
    """The γ under which weighted losses are most even.

    Attributes:
        spread: by what factor weighted losses typically lie off their geometric mean over λ.
        of_paper: the same for γ = 5.
        unweighted: the same for errors of ε as they are.
        at_end: whether γ is an end of the schedule's SNRs, beyond which nothing changes.
    """

    gamma: float
    spread: float
    of_paper: float
    unweighted: float
    at_end: bool


def even_gamma(losses: np.ndarray, schedule: NoiseSchedule) -> EvenGamma:
    """γ with the least variance of ln(w·L) over λ, every interval of log-SNR counting by its length.

    The weights are min(SNR, γ) for errors of x0, whatever a network predicts. Losses are of ε, [T], above 0.
    """
    low, high = float(schedule.snr[-1]), float(schedule.snr[0])
    gammas = np.geomspace(low, high, COMPARED)
    *spreads, of_paper, unweighted = spread(losses, schedule, np.array([*gammas, 5.0, high])).tolist()
    best = int(np.argmin(spreads))
    return EvenGamma(float(gammas[best]), spreads[best], of_paper, unweighted, best in (0, COMPARED - 1))


def spread(losses: np.ndarray, schedule: NoiseSchedule, gammas: np.ndarray) -> np.ndarray:
    """e to the standard deviation of ln(w·L) over λ, for each γ."""
    log_snr = schedule.snr.log().numpy()
    widths = information(np.ones(len(losses)), log_snr)
    logs, shares = np.minimum(log_snr, np.log(gammas)[:, None]) - log_snr + np.log(losses), widths / widths.sum()
    logs -= (logs @ shares)[:, None]
    return np.asarray(np.exp(np.sqrt(logs**2 @ shares)))


def gamma(measured: MeasuredProfile, asked: Options) -> Suggestion[EvenGamma]:
    """Min-SNR's γ."""
    even = even_gamma(measured.losses, measured.schedule)
    intervals = measured.intervals(
        {"γ": even.gamma},
        lambda of: {"γ": even_gamma(of.losses, of.schedule).gamma},
        lambda low, high: high <= WIDEST_RATIO * low,
    )
    at = f"{even.gamma:.3g}{intervals.around('γ')}"
    rows = [
        ("γ", "typical factor off the mean"),
        (at, f"{even.spread:.3g}"),
        ("5", f"{even.of_paper:.3g}"),
        ("none, errors of epsilon", f"{even.unweighted:.3g}"),
    ]
    reason = "With it the variance of ln(w·L) over λ is least."
    at_end = "It lies at an end of the schedule's SNRs: a constant weight would be as even."
    return Suggestion(
        even,
        f"Min-SNR's γ: {at}",
        asdict(even),
        rows,
        intervals,
        at_end if even.at_end else reason,
        "Evenness is no quality of samples: FID was not measured at this γ.",
    )


def steps(measured: MeasuredProfile, asked: Options) -> Suggestion[list[int]]:
    """Timesteps of sampling by the profile, falling; fewer than asked for where some snap together."""

    def numbered(of: MeasuredProfile) -> dict[str, float]:
        timesteps = spaced_timesteps(asked.steps, of.schedule, "rescaled_profile", of.losses)
        return {f"step {number}": step for number, step in enumerate(timesteps, 1)}

    values, even = numbered(measured), sampling_timesteps(asked.steps, measured.schedule.timesteps)
    intervals, timesteps = measured.intervals(values, numbered, measured.narrow), list(map(int, values.values()))
    if measured.redrawn and not intervals:
        counts = [len(numbered(of)) for of in measured.redrawn]
        intervals["steps"] = Interval("steps", len(timesteps), min(counts), max(counts), carried=False)
    integral = rescaled_profile(measured.schedule, measured.losses)
    pieces = -np.diff(integral[even]) / integral[-1]
    fewer = f": {asked.steps - len(timesteps)} more would be the same timesteps" if len(timesteps) < asked.steps else ""
    rows = [
        (str(number), f"{step}{intervals.around(f'step {number}')}", str(other))
        for number, (step, other) in enumerate(zip(timesteps, even, strict=False), 1)
    ]
    return Suggestion(
        timesteps,
        f"{len(timesteps)} sampling steps{fewer}",
        {"profile": timesteps, "uniform": even},
        [("step", "rescaled_profile", "uniform"), *rows],
        intervals,
        f"They are equally far apart in ∫ L d(σ/α); uniform ones cross from {shown(100 * pieces.min())}% to "
        f"{shown(100 * pieces.max())}% of it.",
        "It goes by the loss alone: compare samples before it is used.",
    )


@dataclass(frozen=True)
class Suggestions:
    """All suggestions, in their order; their names are keys of the JSON."""

    measured: MeasuredProfile
    asked: Options
    slots: Suggestion[Partition]
    density: Suggestion[Density]
    gamma: Suggestion[EvenGamma]
    boundary: Suggestion[Border]
    steps: Suggestion[list[int]]

    @classmethod
    def of(cls, measured: MeasuredProfile, asked: Options) -> Self:
        """The suggestions. Raises UserError for options beyond the measurements, or losses beyond all bounds."""
        if asked.slots > measured.points:
            raise UserError(
                f"{asked.slots} slots from losses at {measured.points} timesteps; allowed: 2 … {measured.points}, "
                "or measure more timesteps"
            )
        every = (measured, asked)
        return cls(*every, slots(*every), density(*every), gamma(*every), boundary(*every), steps(*every))

    @property
    def parts(self) -> dict[str, Suggestion[Any]]:
        return {name: getattr(self, name) for name in ("slots", "density", "gamma", "boundary", "steps")}
