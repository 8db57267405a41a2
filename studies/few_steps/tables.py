"""What the study says, as tables of its page, as rows of files and in Markdown for its README."""

from collections.abc import Mapping, Sequence
from typing import Any

from studies.few_steps.findings import CONTROL, FIRST, Family, Found
from unequal.comparison.tables import FINDING_COLUMNS, cells, named
from unequal.report.formatting import label, mean_and_sd, percent, with_prefix
from unequal.report.page import Table
from unequal.statistics.verdicts import Verdict

NOTE = (
    "Changes are of FID's geometric mean over blocks; less is better. Intervals are for one comparison alone, p and "
    "word for all of the table together, but for the last row: the control's own samples from other noise, where "
    "nothing should be found."
)


def family_table(family: Family, found: Found) -> Table:
    """All ways with one number of calls against the control."""
    sweep = found.sweep
    rows = [(label(way), *cells(finding, sweep.delta)) for way, finding in family.found.items()]
    checked = (label(sweep.repeated), *cells(family.repeated, sweep.delta))
    heading = f"{family.calls} calls, against {label(sweep.control.name)}"
    return Table(heading, ("way", *FINDING_COLUMNS), rows, f"δ = {percent(sweep.delta)}. {NOTE}", [checked])


def scores_table(found: Found) -> Table:
    """FID of all ways."""
    numbers = found.sweep.calls
    rows = [(label(way), *(told(found, calls, way) for calls in numbers)) for way in found.sweep.ways]
    note = (
        "± is the standard deviation over blocks. In brackets: the calls that were made, where steps that snapped to "
        "one timestep have left fewer than were asked for."
    )
    return Table("FID", ("way", *(f"{calls} calls" for calls in numbers)), rows, note)


def told(found: Found, calls: int, way: str) -> str:
    """FID, and the calls where they are fewer."""
    made = {one["calls"] for one in found.of(calls, way)}
    fewer = f" ({' or '.join(map(str, sorted(made)))})" if made != {calls} else ""
    return mean_and_sd(found.fids(calls, way)) + fewer


def confirmation_table(confirmed: Mapping[int, Verdict], found: Found, again: Sequence[Mapping[str, Any]]) -> Table:
    """A row a number of calls."""
    rows = [
        (f"{calls} calls: {label(again[0]['calls'][str(calls)][FIRST]['way'])}", *cells(one, found.sweep.delta))
        for calls, one in confirmed.items()
    ]
    note = (
        f"What came first with each number of calls was held against {label(found.sweep.control.name)} once more, on "
        f"{len(again)} bases that had no say in that; the error of a difference is by the scatter of all ways of the "
        "study, or of these pairs where that is larger. Each row is judged by itself."
    )
    return Table("What came first, on fresh bases", ("way", *FINDING_COLUMNS), rows, note)


def score_rows(found: Found) -> list[dict[str, Any]]:
    """A row a block, number of calls and way."""
    return [
        {"calls": calls, "block": block, "way": way}
        | {name: value for name, value in one.items() if name not in ("calls", "timesteps")}
        | {"calls_made": one["calls"], "timesteps": " ".join(map(str, one["timesteps"]))}
        for calls, own in found.scores.items()
        for block, scored in own.items()
        for way, one in scored["ways"].items()
    ]


def confirmation_rows(found: Found, again: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a block, number of calls and place."""
    return [
        {"calls": calls, "block": block["block"], "place": place, "way": pair["way"], "fid": pair["fid"]}
        for block in again
        for calls in found.sweep.calls
        for place, pair in ((place, block["calls"][str(calls)][place]) for place in (FIRST, CONTROL))
    ]


def markdown(
    judged: Sequence[Family], confirmed: Mapping[int, Verdict], found: Found, first: Mapping[int, str], lead: str
) -> str:
    """What a README says: the first sentence, and a row a way with a word a number of calls."""
    delta = found.sweep.delta
    head = [f"against {label(found.sweep.control.name)}", *(f"{one.calls} calls" for one in judged)]
    lines = [lead, "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for way in found.sweep.compared:
        words = [cells(one.found[way], delta) for one in judged]
        lines.append(f"| {' | '.join((label(way), *(f'{one[0]}: {one[-1]}' for one in words)))} |")
    told = (
        f"{calls} calls: {label(first[calls])}, {cells(one, delta)[0]}: {one.word}" for calls, one in confirmed.items()
    )
    lines += ["", f"What came first, on fresh bases: {'; '.join(told)}."]
    return "\n".join(lines) + "\n"


def first_sentence(found: Found, subject: str) -> str:
    """Data, network and budget; `subject` is what people call the images."""
    told = found.any["conditions"]
    return (
        f"On {named(subject, told['data'])}, with {len(found.sweep.seeds)} bases of "
        f"{with_prefix(told['parameters'])} parameters and {with_prefix(told['images'])} images; "
        f"FID from {told['samples_per_seed']:,} samples."
    )
