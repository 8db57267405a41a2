"""All that a profile suggests, together: slots, a density, γ, the border of two experts, sampling steps."""

import math
from dataclasses import dataclass, replace
from typing import Literal, Self, get_args

import numpy as np

from unequal.diffusion.predictions import Prediction, epsilon_error_factor
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.diffusion.spacing import profile, sampling_timesteps, spaced_timesteps
from unequal.errors import UserError
from unequal.evaluation.loss_profile import SPACES
from unequal.profiler.intervals import WIDEST_RATIO, WIDEST_SHARE, Interval, interval, intervals_of, narrow, shown
from unequal.profiler.nearest_density import (
    Nearest,
    TwoLevels,
    arguments_for,
    nearest,
    relative_moment,
    total_variation,
    two_levels,
)
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.draws import equal_over
from unequal.timesteps.information import information
from unequal.timesteps.learning import least_variance
from unequal.timesteps.partition import Partition, equal_sums
from unequal.timesteps.samplers import uniform
from unequal.timesteps.weights import loss_weights

#: Values of γ that are compared, in equal steps of its logarithm between the schedule's SNRs.
COMPARED = 1001
#: The same for each of many redrawn losses.
COARSE = 81


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


def even_gamma(losses: np.ndarray, schedule: NoiseSchedule, compared: int = COMPARED) -> EvenGamma:
    """γ with the least variance of ln(w·L) over λ, every interval of log-SNR counting by its length.

    The weights are min(SNR, γ) for errors of x0, whatever a network predicts, so that the prediction does not matter.
    Losses are of ε, [T], above 0.
    """
    low, high = float(schedule.snr[-1]), float(schedule.snr[0])
    gammas = np.geomspace(low, high, compared)
    spreads = [spread(losses, schedule, gamma) for gamma in gammas.tolist()]
    best = int(np.argmin(spreads))
    at_end = best in (0, compared - 1)
    return EvenGamma(
        float(gammas[best]), spreads[best], spread(losses, schedule, 5.0), spread(losses, schedule, high), at_end
    )


def spread(losses: np.ndarray, schedule: NoiseSchedule, gamma: float) -> float:
    """e to the standard deviation of ln(w·L) over λ."""
    weights = loss_weights("min_snr", "epsilon", schedule.snr, gamma=gamma).numpy()
    widths = information(np.ones(len(losses)), schedule.snr.log().numpy())
    logs, shares = np.log(weights * losses), widths / widths.sum()
    return float(np.exp(np.sqrt(shares @ (logs - shares @ logs) ** 2)))


#: Wan 2.2's of text and of images to video, times after the shift.
OF_WAN = {"Wan 2.2, text to video": 0.875, "Wan 2.2, image to video": 0.9}


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


def halves(over: "Halves", losses: np.ndarray, schedule: NoiseSchedule) -> Boundary:
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
    found = {
        "halves over timesteps": halves("timesteps", losses, schedule),
        "halves over log-SNR": halves("log_snr", losses, schedule),
        **{name: Boundary.at_time(time) for name, time in OF_WAN.items()},
    }
    sums, rising, listed = profile(schedule, losses), -schedule.snr.log().numpy(), []
    for name, boundary in found.items():
        below = float(np.interp(-boundary.log_snr, rising, sums))
        timestep = boundary.timestep(schedule)
        share, loss = 1 - timestep / schedule.timesteps, 1 - below / float(sums[-1])
        listed.append(Border(name, boundary, timestep, share, loss))
    return listed


#: Spaces whose losses can be shared out among slots → the prediction whose squared error is meant.
LOSSES: dict[str, Prediction] = SPACES | {"velocity": "velocity"}
#: The densities that can be asked for.
Kind = Literal["least_variance", "slots"]
#: Over what the loss is shared out between two experts.
Halves = Literal["timesteps", "log_snr"]


@dataclass(frozen=True)
class Options:
    """Options of the suggestions.

    Attributes:
        slots: K.
        steps: n, of sampling.
        space: a key of `LOSSES`, whose sums the slots share.
        density: which one the named ones are to be near.
        halves: over what each of two experts gets half of the loss.
    """

    slots: int = 10
    steps: int = 20
    space: str = "epsilon"
    density: Kind = "least_variance"
    halves: Halves = "timesteps"


@dataclass(frozen=True)
class MeasuredProfile:
    """Measured losses at every timestep.

    Attributes:
        schedule: of the model.
        prediction: of the network.
        losses: mean squared errors of ε, [T].
        second_moments: mean squares of the same over draws, [T].
        points: how many timesteps were measured; between them values are interpolated.
        replicas: losses redrawn by their errors, [n, T]; None: errors are unknown.
    """

    schedule: NoiseSchedule
    prediction: Prediction
    losses: np.ndarray
    second_moments: np.ndarray
    points: int
    replicas: np.ndarray | None = None

    @property
    def shift(self) -> float:
        """k of a flow's schedule; 1 of others."""
        return self.schedule.shift if isinstance(self.schedule, Flow) else 1.0

    def in_space(self, prediction: Prediction) -> np.ndarray:
        """Factor [T] from a squared error of ε to one of a prediction."""
        return 1 / epsilon_error_factor(prediction, self.schedule.snr).numpy()


@dataclass(frozen=True)
class Density:
    """A density, what weighting it back is worth, and what is near it: logit-normal, shift and Beta, and two levels.

    Attributes:
        probabilities: p_t, [T].
        moment: second moment of a draw's trained loss, weighted back, over that of uniform draws.
        from_uniform: total variation from uniform timesteps.
    """

    kind: Kind
    probabilities: np.ndarray
    moment: float
    from_uniform: float
    nearest: list[Nearest]
    two_levels: TwoLevels


@dataclass(frozen=True)
class Suggestions:
    """Everything.

    Attributes:
        slots: of equal loss.
        borders: of two experts: by halves over timesteps, by halves over log-SNR, those of others.
        steps: timesteps of sampling by the profile, falling; fewer than asked for where some snap together.
        uniform_steps: the same number of uniform ones.
        intervals: section → intervals of its numbers; empty where errors are unknown.
    """

    asked: Options
    measured: MeasuredProfile
    slots: Partition
    density: Density
    gamma: EvenGamma
    borders: list[Border]
    steps: list[int]
    uniform_steps: list[int]
    intervals: dict[str, list[Interval]]

    @property
    def border(self) -> Border:
        return self.borders[get_args(Halves).index(self.asked.halves)]

    @property
    def nearest(self) -> Nearest:
        """The named density that is nearest of all."""
        return min(self.density.nearest, key=lambda one: one.distance)

    def between(self, section: str, number: str) -> str:
        """The interval of a number of a section, in brackets behind a blank; nothing where it is unknown."""
        known = [one for one in self.intervals.get(section, ()) if one.name == number]
        return f" ({shown(known[0].low)} … {shown(known[0].high)})" if known else ""

    @classmethod
    def of(cls, measured: MeasuredProfile, asked: Options) -> Self:
        """The suggestions. Raises UserError for options beyond the measurements, or losses beyond all bounds."""
        if asked.slots > measured.points:
            raise UserError(
                f"{asked.slots} slots from losses at {measured.points} timesteps; allowed: 2 … {measured.points}, "
                "or measure more timesteps"
            )
        losses, schedule = measured.losses, measured.schedule
        slots = equal_sums(losses * measured.in_space(LOSSES[asked.space]), asked.slots)
        uniform_steps = sampling_timesteps(asked.steps, schedule.timesteps)
        gamma, found = even_gamma(losses, schedule), borders(losses, schedule)
        density = density_of(measured, slots, asked.density)
        steps = spaced_timesteps(asked.steps, schedule, "rescaled_profile", losses)
        suggested = cls(asked, measured, slots, density, gamma, found, steps, uniform_steps, {})
        return replace(suggested, intervals=intervals(suggested))


def intervals(found: Suggestions) -> dict[str, list[Interval]]:
    """Intervals of the suggested numbers, by section; nothing where errors are unknown.

    Raises UserError where redrawn losses have no slots of equal sums.
    """
    measured, asked, schedule = found.measured, found.asked, found.measured.schedule
    replicas, total = measured.replicas, measured.schedule.timesteps
    if replicas is None or not len(replicas):
        return {}

    def starts(losses: np.ndarray) -> list[int]:
        return [one.first for one in equal_sums(losses * measured.in_space(LOSSES[asked.space]), asked.slots)][1:]

    def halved(over: Halves) -> list[Interval]:
        border = found.borders[get_args(Halves).index(over)]
        # The border that is not suggested withholds nothing.
        carried = narrow(total) if over == asked.halves else lambda *_: True
        return intervals_of(
            {border.name: border.timestep},
            lambda losses: [halves(over, losses, schedule).timestep(schedule)],
            carried,
            replicas,
        )

    firsts = {start_of(number): one.first for number, one in enumerate(found.slots, 1) if number > 1}
    order = sorted(get_args(Halves), key=lambda over: over != asked.halves)
    return {
        "slots": intervals_of(firsts, starts, narrow(total), replicas),
        "gamma": intervals_of(
            {"γ": found.gamma.gamma},
            lambda losses: [even_gamma(losses, schedule, COARSE).gamma],
            lambda low, high: high <= WIDEST_RATIO * low,
            replicas,
        ),
        "steps": intervals_of(
            {step_of(number): step for number, step in enumerate(found.steps, 1)},
            lambda losses: spaced_timesteps(asked.steps, schedule, "rescaled_profile", losses),
            narrow(total),
            replicas,
        ),
        "boundary": [one for over in order for one in halved(over)],
        "density": density_intervals(found, replicas),
    }


#: Names of the numbers of a density of two levels, and of what a density leaves of the second moment.
BORDER, RATIO, MOMENT = "border of two levels", "ratio of two levels", "second moment"


def start_of(slot: int) -> str:
    """Name of the first timestep of a slot, counted from 1."""
    return f"start of slot {slot}"


def step_of(number: int) -> str:
    """Name of a sampling step, counted from 1."""
    return f"step {number}"


def argument(family: str, name: str) -> str:
    """Name of an argument of a named density."""
    return f"{family}'s {name}"


def density_intervals(found: Suggestions, replicas: np.ndarray) -> list[Interval]:
    """Intervals of the arguments of densities near the suggested one, if losses keep their relative spread over draws.

    They are carried where redrawn losses give densities near the suggested one.
    """
    measured, asked, p = found.measured, found.asked, found.density.probabilities
    of_slots = measured.in_space(LOSSES[asked.space])

    moments = [measured.second_moments * (losses / measured.losses) ** 2 for losses in replicas]
    slots = [equal_sums(losses * of_slots, asked.slots) for losses in replicas]
    others = np.array([probabilities(measured, *one, asked.density) for one in zip(moments, slots, strict=True)])
    near = float(np.quantile(np.abs(others - p).sum(1) / 2, 0.95)) < WIDEST_SHARE
    values = {
        argument(one.family, name): (one.arguments[name], redrawn)
        for one in found.density.nearest
        for name, redrawn in arguments_for(one, p, others, measured.schedule).items()
    }
    step, steps = found.density.two_levels, list(map(two_levels, others))
    values[BORDER] = step.border, np.array([one.border for one in steps])
    values[RATIO] = step.multiplier, np.array([one.multiplier for one in steps])
    trained = measured.in_space(measured.prediction) ** 2
    left = [relative_moment(q, one * trained) for q, one in zip(others, moments, strict=True)]
    values[MOMENT] = found.density.moment, np.array(left)
    return [interval(name, *one, lambda *_: near) for name, one in values.items()]


def probabilities(measured: MeasuredProfile, moments: np.ndarray, slots: Partition, kind: Kind) -> np.ndarray:
    """The density of least variance of the loss that is trained, the network's own, or that of draws by slots.

    The former goes by second moments of errors of ε, [T].
    """
    trained = moments * measured.in_space(measured.prediction) ** 2
    if not math.isfinite(float(trained.max()) * len(trained)) or not (trained > 0).all():
        raise UserError(f"second moments of losses from {trained.min():.3g} to {trained.max():.3g} give no density")
    return equal_over(slots) if kind == "slots" else least_variance(uniform(len(trained)), trained)


def density_of(measured: MeasuredProfile, slots: Partition, kind: Kind) -> Density:
    """A density with what it is worth, and what is near it."""
    p = probabilities(measured, measured.second_moments, slots, kind)
    moments, plain = measured.second_moments * measured.in_space(measured.prediction) ** 2, uniform(len(p))
    found = nearest(p, measured.schedule)
    return Density(kind, p, relative_moment(p, moments), total_variation(p, plain), found, two_levels(p))
