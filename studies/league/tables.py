"""What the study says beside what all studies in blocks say: one table of all recipes, and what fresh seeds say."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from studies.league.standings import standings
from unequal.comparison.judgement import Family
from unequal.comparison.results import Found
from unequal.comparison.settings import Contrast
from unequal.comparison.tables import NAMES
from unequal.report.effective_weighting import Emphasis
from unequal.report.formatting import label, mean_and_sd, percent
from unequal.report.page import Table

#: Between these shares of a recipe's weight, counted from the data end, lies its middle half.
MIDDLE = (0.25, 0.5, 0.75)


def league_table(
    families: Sequence[Family], found: Found, weights: Mapping[str, Emphasis], log_snr: np.ndarray
) -> Table:
    """A row a recipe, the best first."""
    endpoints = [one.endpoint for one in families]
    columns = ["recipe", "its weight lies at λ", *(NAMES[one] for one in endpoints), "FID ± sd"]
    columns = columns if "fid" in endpoints else columns[:-1]
    rows = [
        (f"{place}. {label(arm)}", told_weight(weights[arm], log_snr), *league_cells(families, found, arm))
        for place, (arm, _) in enumerate(standings(found), 1)
    ]
    note = (
        f"In the order of {NAMES[next(iter(found.blocks.endpoints))]}, which says nothing by itself: words are of "
        f"the comparisons with {label(str(found.blocks.control))}. λ = ln SNR: the median of how often a timestep is "
        "drawn times how much an error of the velocity counts there, and its middle half, from the noise end; of what "
        "is learned, as it was at the end, in the mean of all blocks. By conflicts: a remedy of them makes each step "
        "of its clusters' gradients, by weights that no training tells of. ± is the standard deviation over blocks."
    )
    return Table("The league", columns, rows, note)


def league_cells(families: Sequence[Family], found: Found, arm: str) -> Iterator[str]:
    """Changes against the control with their words, and FID."""
    for family in families:
        told = family.found.get(Contrast(arm=arm, control=str(found.blocks.control)))
        yield "the control" if told is None else f"{percent(told.change, sign=True)}: {told.word}"
    if any(one.endpoint == "fid" for one in families):
        yield mean_and_sd([one["endpoints"]["fid"] for one in found.trainings[arm].values()])


def told_weight(one: Emphasis, log_snr: np.ndarray) -> str:
    """Where the middle half of density × weight lies, in λ."""
    if one.product is None:
        return one.by
    high, middle, low = log_snr[np.searchsorted(np.cumsum(one.product), MIDDLE).clip(max=len(log_snr) - 1)]
    return f"{middle:.1f} ({low:.1f} … {high:.1f})".replace("-", "−")
