"""Each suggestion for people: its figures in rows, the measured reason and the caveat, a sentence each."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import fill

import numpy as np

from unequal.diffusion.spacing import profile, rescaled_profile
from unequal.profiler.intervals import Interval, shown, too_open
from unequal.profiler.nearest_density import Nearest
from unequal.profiler.suggestions import (
    BORDER,
    LOSSES,
    MOMENT,
    RATIO,
    Border,
    Suggestions,
    argument,
    start_of,
    step_of,
)
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.partition import Partition

#: Total variation from which on a named density is reported as far.
FAR = 0.1
DB_PER_NAT = 10 / math.log(10)


@dataclass(frozen=True)
class Section:
    """One suggestion: cells of a table, the first row its heads; what was measured; what that does not say."""

    title: str
    rows: list[tuple[str, ...]]
    reason: str
    caveat: str


#: Keys of the sections, in their order.
PARTS = ("slots", "density", "gamma", "boundary", "steps")


def sections(found: Suggestions) -> list[Section]:
    """All of them; what the errors of the losses do not carry is withheld."""
    all_of_them = [slots(found), density(found), gamma(found), border(found), steps(found)]
    return [judged(section, found.intervals, part) for section, part in zip(all_of_them, PARTS, strict=True)]


def judged(section: Section, intervals: Mapping[str, Sequence[Interval]], part: str) -> Section:
    """A section, without its rows where the interval of one of its numbers is too wide."""
    if not (why := too_open(intervals, part)):
        return section
    title = section.title.partition(":")[0]
    return Section(f"{title}: withheld", [], f"{why}.", "More draws a timestep (--draws) narrow these intervals.")


def slots(found: Suggestions) -> Section:
    """Ranges of equal loss."""
    space, count = found.asked.space, len(found.slots)
    losses = found.measured.losses * found.measured.in_space(LOSSES[space])
    snr = found.measured.schedule.snr_db.numpy()
    shares = found.slots.shares_of(losses)
    rows = [
        (
            str(number),
            f"{one.first}{found.between('slots', start_of(number))}",
            str(one.last),
            f"{snr[one.first]:.1f} … {snr[one.last]:.1f}",
            f"{share:.1%}",
        )
        for number, (one, share) in enumerate(zip(found.slots, shares, strict=True), 1)
    ]
    equal = Partition([(0, len(losses) - 1)]).split(count).shares_of(losses)
    return Section(
        f"{count} slots of equal loss in {space}",
        [("slot", "first timestep", "last", "SNR in dB", "share of loss"), *rows],
        f"{count} ranges of equally many timesteps have from {equal.min():.1%} to {equal.max():.1%} of the loss; it is "
        f"{losses.max() / losses.min():.3g} times as high at t = {losses.argmax()} as at t = {losses.argmin()}.",
        "Slots even out losses, not gradients; draws that are stratified by them change what is learned unless they "
        "are weighted back.",
    )


def density(found: Suggestions) -> Section:
    """The table by slots, and the named densities that are near it."""
    one, k = found.density, found.measured.shift
    shares = zip(found.slots, found.slots.sums(one.probabilities), found.slots.shares, strict=True)
    table = [(f"t = {r.first} … {r.last}", f"{p:.1%} of draws", f"{u:.1%} if uniform") for r, p, u in shares]
    between = partial(found.between, "density")
    named = [(near.family, rendered(near, k, between), f"{near.distance:.1%} elsewhere") for near in one.nearest]
    step = one.two_levels
    ratio, at = f"{step.multiplier:.3g}{between(RATIO)}", f"{step.border}{between(BORDER)}"
    levels = f"{ratio} times as often below t = {at}"
    two = ("two levels", levels, f"{step.distance:.1%} elsewhere")
    uniform = ("uniform t", "", f"{one.from_uniform:.1%} elsewhere")
    return Section(
        f"Density of timesteps: {one.kind}",
        [("density", "where, or by what", "draws"), *table, *named, two, uniform],
        f"Weighted back, a draw's loss has {one.moment:.3g}{between(MOMENT)} times the second moment that it has at "
        "uniform timesteps.",
        "The variance of gradients goes by their moments, which losses only stand for; without the weights 1/(T·p) the "
        f"density changes what is learned.{far(found.nearest)}",
    )


def rendered(near: Nearest, shift: float, between: Callable[[str], str]) -> str:
    """Arguments of a named density, with their intervals; on a flow with a shift, of times before it."""
    listed = ", ".join(
        f"{'' if name == near.family else f'{name} '}{value:.3g}{between(argument(near.family, name))}"
        for name, value in near.arguments.items()
    )
    if shift == 1:
        return listed
    after = {"mean": lambda mean: mean + math.log(shift), "shift": lambda own: own * shift}
    shifted = [f"; {name} {after[name](value):.3g} after" for name, value in near.arguments.items() if name in after]
    return f"{listed} before the shift of {shift:.3g}{''.join(shifted)}"


def far(best: Nearest) -> str:
    """A warning where no named density is near."""
    if best.distance < FAR:
        return ""
    return f" No named density is near: even {best.family} puts {best.distance:.0%} of draws elsewhere."


def gamma(found: Suggestions) -> Section:
    """The section on Min-SNR."""
    one, at = found.gamma, f"{found.gamma.gamma:.3g}{found.between('gamma', 'γ')}"
    end = " It lies at the end of the schedule's SNRs: a constant weight would be as even." if one.at_end else ""
    return Section(
        f"Min-SNR's γ: {at}",
        [
            ("γ", "typical factor off the mean"),
            (at, f"{one.spread:.3g}"),
            ("5", f"{one.of_paper:.3g}"),
            ("none, errors of epsilon", f"{one.unweighted:.3g}"),
        ],
        f"With it weighted losses are most even over log-SNR: the variance of ln(w·L) over λ is least.{end}",
        "Evenness is no quality of samples: the paper (2303.09556) chose 5 by FID, and studies/league compared 5 "
        f"by FID, on a flow that predicts the velocity. This is {measured_on(found)}; FID was not measured at its γ.",
    )


def measured_on(found: Suggestions) -> str:
    """Kind of schedule and prediction that the losses are of."""
    kind = "a noise schedule" if found.measured.schedule.preserves_variance else "a flow"
    return f"{kind} whose network predicts {found.measured.prediction}"


def border(found: Suggestions) -> Section:
    """The section on two experts."""
    k = found.measured.shift
    times: dict[str, Callable[[Boundary], float]] = {"s": Boundary.time}
    if k != 1:
        times = {f"s before shift {k:.3g}": partial(Boundary.time, shift=k), "s after": Boundary.time}
    rows = [
        (
            one.name,
            f"{shown(one.boundary.log_snr)} ({shown(one.boundary.log_snr * DB_PER_NAT)} dB)",
            *(f"{shown(time(one.boundary))}{ends(found, one, time)}" for time in times.values()),
            f"{one.timestep}{found.between('boundary', one.name)}",
            f"{one.timesteps:.1%}",
            f"{one.loss:.1%}",
        )
        for one in found.borders
    ]
    nats = float(profile(found.measured.schedule, found.measured.losses)[-1])
    return Section(
        f"Boundary of two experts: λ = {shown(found.border.boundary.log_snr)}"
        f"{ends(found, found.border, lambda boundary: boundary.log_snr)}, index {found.border.timestep}"
        f"{found.between('boundary', found.border.name)}",
        [("by", "λ", *times, "index", "timesteps", "loss over λ"), *rows],
        f"It gives each expert half of the loss {found.border.name.removeprefix('halves ')}; "
        f"over log-SNR ½·∫ L dλ is {nats:.3g} nats a value, and "
        "between the ends of the schedule noisy images carry no more about an image.",
        "Losses favour the data end, where details are: compare how many timesteps each expert gets, which the table "
        "shows for the one at the noise end. Wan's borders were found by training, and studies/boundary compared "
        f"λ = 0 by FID, on a flow. This is {measured_on(found)}; FID was not measured at its border.",
    )


def ends(found: Suggestions, one: Border, value: Callable[[Boundary], float]) -> str:
    """Interval of what a border's timestep stands for, in brackets behind a blank; nothing where it is unknown."""
    known = [each for each in found.intervals.get("boundary", ()) if each.name == one.name]
    if not known:
        return ""
    schedule = found.measured.schedule
    at = [value(Boundary.at_timestep(round(end), schedule)) for end in (known[0].low, known[0].high)]
    return f" ({shown(min(at))} … {shown(max(at))})"


def steps(found: Suggestions) -> Section:
    """The section on sampling."""
    profile_at = rescaled_profile(found.measured.schedule, found.measured.losses)
    pieces = -np.diff(profile_at[found.uniform_steps]) / profile_at[-1]
    widest = f"from {shown(100 * pieces.min())}% to {shown(100 * pieces.max())}%" if len(pieces) else "all"
    listed = [
        (str(number), f"{one}{found.between('steps', step_of(number))}", str(uniform))
        for number, (one, uniform) in enumerate(zip(found.steps, found.uniform_steps, strict=True), 1)
    ]
    fewer = f" {found.asked.steps - len(found.steps)} of them snapped to another's timestep."
    return Section(
        f"{len(found.steps)} sampling steps",
        [("step", "rescaled_profile", "uniform"), *listed],
        f"They are equally far apart in ∫ L d(σ/α); of {found.asked.steps} uniform ones each crosses {widest} of it."
        f"{fewer if len(found.steps) < found.asked.steps else ''}",
        "It goes by the loss alone, not by the solver or by what people see: compare samples before it is used.",
    )


WIDTH = 120


def page(head: str, parts: Sequence[Section]) -> str:
    """All sections below a line on what was measured."""
    return "\n\n".join([fill(head, WIDTH), *map(paragraph, parts)])


def paragraph(section: Section) -> str:
    """One section: its title, its rows in columns, its two sentences."""
    widths = [max(map(len, column)) for column in zip(*section.rows, strict=True)]
    lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in section.rows]
    sentences = wrapped("Why", section.reason), wrapped("But", section.caveat)
    return "\n".join([section.title, *lines, *sentences])


def wrapped(word: str, sentence: str) -> str:
    """A sentence behind a word, in lines of one width."""
    return fill(f"{word}: {sentence}", WIDTH, initial_indent="  ", subsequent_indent="       ")
