"""The density of timesteps that a profile suggests, and the named ones near it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from unequal.errors import UserError
from unequal.profiler.nearest_density import Nearest, TwoLevels, nearest, relative_moment, total_variation
from unequal.profiler.suggestion import WIDEST_SHARE, Intervals, Kind, MeasuredProfile, Options, Suggestion
from unequal.timesteps.draws import equal_over
from unequal.timesteps.learning import least_variance
from unequal.timesteps.partition import equal_sums
from unequal.timesteps.samplers import uniform


@dataclass(frozen=True)
class Density:
    """A density, and what is near it: logit-normal, shift and Beta, and two levels.

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

    @property
    def best(self) -> Nearest:
        """The named density that is nearest of all."""
        return min(self.nearest, key=lambda near: near.distance)


def probabilities(measured: MeasuredProfile, asked: Options) -> np.ndarray:
    """The density of least variance of the loss that is trained, the network's own, or that of draws by slots."""
    trained = measured.trained_moments
    if not math.isfinite(float(trained.max()) * len(trained)) or not (trained > 0).all():
        raise UserError(f"second moments of losses from {trained.min():.3g} to {trained.max():.3g} give no density")
    if asked.density == "slots":
        return equal_over(equal_sums(measured.losses_in(asked.space), asked.slots))
    return least_variance(uniform(len(trained)), trained)


def density(measured: MeasuredProfile, asked: Options) -> Suggestion[Density]:
    """The table by slots, and the named densities that are near it.

    Its numbers are carried where redrawn losses give densities near it.
    """
    p = probabilities(measured, asked)
    near, levels = nearest(p, measured.schedule), TwoLevels.of(p)
    moment = relative_moment(p, measured.trained_moments)
    summary = Density(asked.density, p, moment, total_variation(p, uniform(len(p))), near, levels)

    refits = {member.family: member.refitted(p, measured.schedule) for member in near} if measured.redrawn else {}
    distances = list[float]()

    def redrawn(of: MeasuredProfile) -> dict[str, float]:
        q = probabilities(of, asked)
        distances.append(total_variation(q, p))
        arguments = {family: refit(q) for family, refit in refits.items()}
        return numbers(arguments, TwoLevels.of(q), relative_moment(q, of.trained_moments))

    values = numbers({member.family: member.arguments for member in near}, levels, moment)
    intervals = measured.intervals(values, redrawn, lambda *_: float(np.quantile(distances, 0.95)) < WIDEST_SHARE)
    ranges = equal_sums(measured.losses_in(asked.space), asked.slots)
    shares = zip(ranges, ranges.sums(p), ranges.shares, strict=True)
    ratio = f"{levels.multiplier:.3g}{intervals.around('ratio of two levels')}"
    rows = [
        ("density", "where, or by what", "draws"),
        *((f"t = {r.first} … {r.last}", f"{drawn:.1%} of draws", f"{u:.1%} if uniform") for r, drawn, u in shares),
        *((m.family, rendered(m, measured.shift, intervals), f"{m.distance:.1%} elsewhere") for m in near),
        (
            "two levels",
            f"{ratio} times as often below t = {levels.border}{intervals.around('border of two levels')}",
            f"{levels.distance:.1%} elsewhere",
        ),
        ("uniform t", "", f"{summary.from_uniform:.1%} elsewhere"),
    ]
    figures = {
        "kind": summary.kind,
        "probabilities": p.tolist(),
        "second_moment_over_uniform": moment,
        "distance_of_uniform": summary.from_uniform,
        "nearest": [{name: getattr(m, name) for name in ("family", "arguments", "distance")} for m in near],
        "two_levels": asdict(levels),
    }
    return Suggestion(
        summary,
        f"Density of timesteps: {summary.kind}",
        figures,
        rows,
        intervals,
        f"Weighted back, a draw's loss has {moment:.3g}{intervals.around('second moment')} times the second moment "
        "that it has at uniform timesteps.",
        "Without the weights 1/(T·p) the density changes what is learned.",
    )


def argument(family: str, name: str) -> str:
    """Name of an argument of a named density."""
    return f"{family}'s {name}"


def numbers(arguments: Mapping[str, Mapping[str, float]], levels: TwoLevels, moment: float) -> dict[str, float]:
    """Numbers of a density by their names."""
    named = {argument(family, name): value for family, each in arguments.items() for name, value in each.items()}
    return {
        **named,
        "border of two levels": levels.border,
        "ratio of two levels": levels.multiplier,
        "second moment": moment,
    }


def rendered(near: Nearest, shift: float, intervals: Intervals) -> str:
    """Arguments of a named density, with their intervals; on a flow with a shift, of times before it."""
    listed = ", ".join(
        ("" if name == near.family else f"{name} ") + f"{value:.3g}" + intervals.around(argument(near.family, name))
        for name, value in near.arguments.items()
    )
    if shift == 1:
        return listed
    after = {"mean": lambda mean: mean + math.log(shift), "shift": lambda own: own * shift}
    shifted = [f"; {name} {after[name](value):.3g} after" for name, value in near.arguments.items() if name in after]
    return f"{listed} before the shift of {shift:.3g}{''.join(shifted)}"
