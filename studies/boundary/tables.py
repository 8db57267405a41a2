"""What the study says beside what all studies in blocks say: every boundary in all units, and what came of it."""

from collections.abc import Iterator, Sequence
from typing import Any

from studies.blocks.findings import Found
from studies.blocks.judgement import Family
from studies.blocks.settings import Comparison
from studies.blocks.tables import NAMES
from studies.boundary.borders import Border, published, steps_of
from unequal.reporting.page import Table
from unequal.reporting.tables import label, percent
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
    "images",
)


def border_table(
    families: Sequence[Family], found: Found, told: Sequence[Border], schedule: FlowSchedule, sampling: Sampling
) -> Table:
    """A row a boundary, from the data end to the noise end, with those of others below."""
    rows = [(label(one.name), *units(one), *changes(families, found, one.name)) for one in told]
    none = [""] * len(families)
    references = [(one.name, *units(one)[:-1], "", *none) for one in published(schedule, steps_of(sampling, schedule))]
    note = (
        "λ = ln(α²/σ²) is the same for every path and shift; t is the first timestep of the expert at the noise end, s "
        f"the time of the flow there, after its shift by {schedule.shift:g} and before. Shares are those of the expert "
        f"at the noise end. Endpoints: change against {label(str(found.blocks.control))} and the study's word. Below: "
        "where others hand over, by the λ of their time after their own shift."
    )
    return Table("Boundaries", (*COLUMNS, *(NAMES[one.endpoint] for one in families)), rows, note, references)


def units(one: Border) -> tuple[str, ...]:
    """A boundary in all of them."""
    numbers = (f"{one.log_snr:.3f}", f"{one.decibels:.2f}", str(one.timestep), f"{one.shifted:.3f}")
    shares = f"{one.unshifted:.3f}", percent(one.noise_steps), percent(one.noise_mass)
    given = "by timesteps" if one.by_timesteps else "as many each"
    return (*(text.replace("-", "−") for text in (*numbers, *shares)), given)


def changes(families: Sequence[Family], found: Found, arm: str) -> Iterator[str]:
    """Of all endpoints, against the control."""
    for family in families:
        finding = family.found.get(Comparison(arm=arm, control=str(found.blocks.control)))
        yield "not known" if finding is None else f"{percent(finding.change, sign=True)}: {finding.word}"


def border_rows(told: Sequence[Border]) -> list[dict[str, Any]]:
    """A row a boundary, as numbers."""
    return [one._asdict() | {"decibels": one.decibels} for one in told]
