"""Boundaries between two experts in all units that are in use, and what resulted from each, as part of the page."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from unequal.comparison.figures import WIDTH
from unequal.comparison.judgement import Family
from unequal.comparison.report import Extras, Judged, ReportSettings, write_report
from unequal.comparison.results import ComparisonResults
from unequal.comparison.settings import Comparison, Contrast
from unequal.comparison.tables import NAMES, rows_table
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import spaced_timesteps
from unequal.errors import UserError
from unequal.measures.loss_profile import endpoints
from unequal.pipeline.stage import Run, stage
from unequal.report.drawing import GOLD, INK, PALE, RED, SOFT
from unequal.report.formatting import label
from unequal.report.page import Drawing
from unequal.settings.evaluation import Sampling
from unequal.settings.groups import ByTimesteps, Plan, TwoGroups
from unequal.settings.schedule import FlowSchedule
from unequal.statistics.verdicts import Verdict
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
    """Return the borders of all plans that have one, from the data end to the noise end."""
    borders = [
        border(name, Boundary(plan.groups.log_snr), schedule, steps, isinstance(plan.allocation, ByTimesteps))
        for name, plan in plans.items()
        if isinstance(plan.groups, TwoGroups)
    ]
    return sorted(borders, key=lambda one: (-one.log_snr, one.by_timesteps))


def planned(shown: Sequence[Border], plan: Comparison) -> dict[str, Contrast]:
    """Arm → its comparison with the joint model, or, with images by timesteps, with the same boundary and as many each.

    The latter differ in how images are shared out alone. What is not planned is left out.
    """
    alike = {one.log_snr: one.name for one in shown if not one.by_timesteps}
    controls = {one.name: alike.get(one.log_snr) if one.by_timesteps else plan.repeated.control for one in shown}
    return {one.arm: one for one in plan.compared if controls.get(one.arm) == one.control}


def loss_shares(results: ComparisonResults, schedule: NoiseSchedule, first: int) -> tuple[float, float]:
    """How much of the joint model's held-out loss of ε lies from a timestep on: of that over timesteps, and over λ.

    By the bins of its curve, as if the loss were level in each.
    """
    lengths = np.diff([*results.any_training["curve"]["first"], results.timesteps])
    losses = np.repeat(results.curves(results.plan.repeated.control).mean(0), lengths)
    measures = endpoints(schedule)
    parts = [losses * measures[name].weights for name in ("loss_over_timesteps", "loss_over_log_snr")]
    over_timesteps, over_log_snr = (float(one[first:].sum() / one.sum()) for one in parts)
    return over_timesteps, over_log_snr


def published(schedule: FlowSchedule, steps: Sequence[int]) -> list[Border]:
    """Return the borders of other rules, on this schedule."""
    return [border(name, boundary, schedule, steps) for name, boundary in WAN.items()]


NOTE = (
    "λ = ln(α²/σ²) is the same for every path and shift. The timestep is the first of the expert at the noise end; "
    "times are those of the flow after its shift and before. Shares of steps, timesteps and losses are of the expert "
    "at the noise end; losses are held-out ε losses of the joint model, by its curve. Last rows: where others "
    "hand over, by the λ of their time after their own shift."
)


def border_rows(shown: Sequence[Border], results: ComparisonResults, schedule: FlowSchedule) -> list[dict[str, Any]]:
    """A row a boundary, in all units, with what of all lies in the range of the expert for noise."""
    shares, tables = ("noise_loss_over_timesteps", "noise_loss_over_log_snr"), schedule.tables()
    return [
        one._asdict()
        | {"decibels": one.decibels}
        | dict(zip(shares, loss_shares(results, tables, one.timestep), strict=True))
        for one in shown
    ]


#: Inches of a panel.
PANEL = 2.3
#: Whether images go by timesteps → colour and title of a column, in which all points have one baseline.
KINDS = {
    False: (INK, "equal images for both experts,\nagainst {joint}"),
    True: (RED, "images in proportion to timesteps,\nagainst equal images"),
}
CAPTION = (
    "Change of every endpoint over λ = ln SNR of the boundary, falling towards the noise, with its 95 % interval; "
    "below the line is better, shaded: within δ. Left: two experts with equal images, against {joint}. Right: the same "
    "boundary with images in proportion to timesteps, against equal images at the same λ. Dotted: where Wan 2.2 hands "
    "over."
)


def sweep(families: Sequence[Family], results: ComparisonResults, shown: Sequence[Border]) -> Drawing:
    """A panel an endpoint."""
    draw = partial(draw_sweep, families=families, results=results, shown=shown)
    caption = CAPTION.format(joint=label(results.plan.repeated.control))
    return Drawing("boundaries", (WIDTH, 0.8 + PANEL * len(families)), draw, "Where to hand over", caption)


def draw_sweep(figure: Figure, families: Sequence[Family], results: ComparisonResults, shown: Sequence[Border]) -> None:
    """A row an endpoint, a column for each way of giving out images, a point a boundary."""
    panels = figure.subplots(len(families), len(KINDS), sharex=True, sharey="row", squeeze=False)
    compared, joint = planned(shown, results.plan), label(results.plan.repeated.control)
    for row, family in zip(panels, families, strict=True):
        for axes, (kind, (ink, text)) in zip(row, KINDS.items(), strict=True):
            kindred = [one for one in shown if one.by_timesteps == kind and one.name in compared]
            draw_points(axes, family, [(one.log_snr, family.verdicts[compared[one.name]]) for one in kindred], ink)
            if family is families[0]:
                axes.set_title(text.format(joint=joint), fontsize=10)
        name = NAMES[family.endpoint].replace(", ", ",\n")
        row[0].set_ylabel(f"{name}\nchange in %")
    handles, texts = panels[0][0].get_legend_handles_labels()
    key = dict(zip(texts, handles, strict=True)) | {"the same within δ": Patch(color=PALE)}
    figure.legend(key.values(), key.keys(), loc="outside lower center", ncols=2)
    panels[0][0].invert_xaxis()
    for axes in panels[-1]:
        axes.set_xlabel("λ = ln SNR of the boundary\n(left: data, right: noise)")


def draw_points(axes: Axes, family: Family, points: Sequence[tuple[float, Verdict]], ink: str) -> None:
    """Changes over λ, each with its interval."""
    axes.axhspan(*(100 * np.expm1([-family.delta, family.delta])), color=PALE, linewidth=0, zorder=0)
    axes.axhline(0, color=SOFT, linewidth=1)
    for boundary in WAN.values():
        axes.axvline(boundary.log_snr, color=GOLD, linewidth=1, linestyle=":", label="Wan 2.2's boundaries")
    if points:
        middles = [100 * one.change for _, one in points]
        bars = np.array([[100 * (one.change - one.low), 100 * (one.high - one.change)] for _, one in points]).T
        axes.errorbar([at for at, _ in points], middles, bars, color=ink, marker="o", markersize=4, linewidth=1.2)


class Settings(ReportSettings):
    sampling: Sampling
    plans: dict[str, Plan]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the comparison's page, with the boundaries in all units and where they lie."""
    schedule = settings.schedule
    if not isinstance(schedule, FlowSchedule):
        raise UserError(f"schedule.name: '{schedule.name}'; boundaries are reported in times of a flow: flow")
    steps = steps_of(settings.sampling, schedule)
    shown = borders(settings.plans, schedule, steps)

    def own(judged: Judged) -> Extras:
        results, families = judged.results, judged.families
        rows = border_rows([*shown, *published(schedule, steps)], results, schedule)
        return Extras([rows_table("Boundaries", rows, NOTE)], [sweep(families, results, shown)], {"borders": rows})

    write_report(run, settings, own)
