"""What the study says beside what all studies in blocks say: every boundary in all units, and what came of it.

Experts are also set beside the joint model inside their own ranges.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from studies.boundary.borders import Border, loss_shares, planned, published, steps_of
from unequal.comparison.groups import Beside, group_table
from unequal.comparison.judgement import Family
from unequal.comparison.results import Found
from unequal.comparison.settings import Contrast
from unequal.comparison.tables import NAMES
from unequal.report.formatting import label, percent
from unequal.report.page import Table
from unequal.settings.evaluation import Sampling
from unequal.settings.schedule import FlowSchedule

COLUMNS = (
    "boundary",
    "λ",
    "in dB",
    "t",
    "s, shifted",
    "s, unshifted",
    "of the sampling steps",
    "of timesteps",
    "of the loss over timesteps",
    "of that over log-SNR",
    "images",
    "against",
)


def border_table(
    families: Sequence[Family], found: Found, told: Sequence[Border], schedule: FlowSchedule, sampling: Sampling
) -> Table:
    """A row a boundary, from the data end to the noise end, with those of others below."""
    tables, compared = schedule.tables(), planned(told, found.blocks)

    def units(one: Border) -> tuple[str, ...]:
        """A boundary in all of them, and what of all lies in the range of the expert for noise."""
        return in_units(one, loss_shares(found, tables, one.timestep))

    rows = [(label(one.name), *units(one), given(one), *changes(families, compared.get(one.name))) for one in told]
    none = [""] * (2 + len(families))
    references = [(one.name, *units(one), *none) for one in published(schedule, steps_of(sampling, schedule))]
    joint = label(found.blocks.repeated.control)
    note = (
        "λ = ln(α²/σ²) is the same for every path and shift; t is the first timestep of the expert at the noise end, s "
        f"the time of the flow there, after its shift by {schedule.shift:g} and before. Shares are those of the expert "
        f"at the noise end, of losses those of the held-out loss of ε of {joint}, by the bins of its curve. Endpoints: "
        f"change against the arm that is named, and the study's word; that arm is {joint} for a boundary with as many "
        "images for each expert, and such a boundary for the same one with images by timesteps. Below: where others "
        "hand over, by the λ of their time after their own shift."
    )
    return Table("Boundaries", (*COLUMNS, *(NAMES[one.endpoint] for one in families)), rows, note, references)


def in_units(one: Border, losses: Sequence[float]) -> tuple[str, ...]:
    """A boundary in all units, with shares of losses."""
    numbers = (f"{one.log_snr:.3f}", f"{one.decibels:.2f}", str(one.timestep), f"{one.shifted:.3f}")
    shares = f"{one.unshifted:.3f}", *map(percent, (one.noise_steps, one.noise_mass, *losses))
    return tuple(text.replace("-", "−") for text in (*numbers, *shares))


def given(one: Border) -> str:
    """How images are given out."""
    return "by timesteps" if one.by_timesteps else "as many each"


def changes(families: Sequence[Family], comparison: Contrast | None) -> Iterator[str]:
    """What an arm is held against, and its change by all endpoints."""
    yield "–" if comparison is None else label(comparison.control)
    for family in families:
        finding = None if comparison is None else family.found[comparison]
        yield "not compared" if finding is None else f"{percent(finding.change, sign=True)}: {finding.word}"


def range_table(told: Sequence[Beside], found: Found, schedule: FlowSchedule) -> Table:
    """Each expert beside the joint model inside its own range."""
    table = group_table(told, found.blocks.repeated.control)
    note = (
        f"{table.note} With a shift of {schedule.shift:g}, little of the losses over all timesteps lies in the range "
        "of the expert for noise where a boundary is near the noise, as the table of boundaries tells: they hardly see "
        "that expert, and such boundaries are judged by the one near the data, and by FID."
    )
    return table._replace(note=note)


def border_rows(told: Sequence[Border], found: Found, schedule: FlowSchedule) -> list[dict[str, Any]]:
    """A row a boundary, as numbers."""
    shares, tables = ("noise_loss_over_timesteps", "noise_loss_over_log_snr"), schedule.tables()
    return [
        one._asdict()
        | {"decibels": one.decibels}
        | dict(zip(shares, loss_shares(found, tables, one.timestep), strict=True))
        for one in told
    ]
