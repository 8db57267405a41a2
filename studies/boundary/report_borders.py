"""Boundaries between two experts in all units that are in use, as part of the page."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unequal.comparison.groups import widths
from unequal.comparison.report import Extras, Judged, ReportSettings, write_report
from unequal.comparison.results import ComparisonResults
from unequal.comparison.tables import rows_table
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import spaced_timesteps
from unequal.errors import UserError
from unequal.evaluation.loss_profile import endpoints
from unequal.pipeline.stage import Run, stage
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
    """Return the borders of all plans that have one, from the data end to the noise end."""
    borders = [
        border(name, Boundary(plan.groups.log_snr), schedule, steps, isinstance(plan.allocation, ByTimesteps))
        for name, plan in plans.items()
        if isinstance(plan.groups, TwoGroups)
    ]
    return sorted(borders, key=lambda one: (-one.log_snr, one.by_timesteps))


def loss_shares(results: ComparisonResults, schedule: NoiseSchedule, first: int) -> tuple[float, float]:
    """How much of the joint model's held-out loss of ε lies from a timestep on: of that over timesteps, and over λ.

    By the bins of its curve, as if the loss were level in each.
    """
    losses = np.repeat(results.curves(results.plan.repeated.control).mean(0), widths(results))
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
        rows = border_rows([*shown, *published(schedule, steps)], judged.results, schedule)
        return Extras([rows_table("Boundaries", rows, NOTE)], rows={"borders": rows})

    write_report(run, settings, own)
