"""Three heads of one network as tables of the study's page, and as rows of files."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from studies.predictions.combining import BY_SAMPLES
from studies.predictions.findings import COMBINATIONS, Heads
from unequal.diffusion.predictions import HEADS
from unequal.files import rounded
from unequal.report.formatting import label, mean_and_sd, percent
from unequal.report.page import Table

#: Of every combination.
FIGURES = ("fid", "loss_over_timesteps")
SYMBOLS = {"sample": "x0", "v_prediction": "v", "epsilon": "ε"}
#: How people read the combinations.
NAMES = {
    "profile": "the head with the least error",
    "blend": "blend of least variance",
    "blend_diagonal": "blend by errors alone",
    BY_SAMPLES: "the head with the best samples, range by range",
} | {head: f"{symbol} alone" for head, symbol in SYMBOLS.items()}


def combinations_table(found: Sequence[Heads]) -> Table:
    """A row an arm and combination."""
    columns = ("heads of", "combination", "FID", "held-out loss of ε, over timesteps")
    rows = [
        (label(one.arm), NAMES[name], *(mean_and_sd(one.told(name, figure)) for figure in FIGURES))
        for one in found
        for name in COMBINATIONS
    ]
    note = (
        "Of the same trained networks, without words; ± is the standard deviation over blocks. Combinations are "
        "chosen by one half of the held-out images, by errors or by FID from other noise, and these figures are of the "
        "other half: FIDs are not on the scale of the tables above, whose reference is all of them."
    )
    return Table("What three heads are in other combinations", columns, rows, note)


def swaps_table(found: Sequence[Heads]) -> Table:
    """A row an arm and range of timesteps."""
    columns = ("heads of", "timesteps", *(f"{SYMBOLS[head]} speaks there" for head in HEADS))
    rows = [
        (label(one.arm), f"{part.first} … {part.last}", *swap_cells(one, number))
        for one in found
        for number, part in enumerate(one.ranges)
    ]
    note = (
        "Change of FID where one head speaks in these timesteps in the place of the one that errs least; elsewhere "
        "that one speaks. Mean over blocks ± its standard error. Where the quality is lost, a change is large; where a "
        "head that errs more makes better samples, it is negative."
    )
    return Table("Where the quality is lost", columns, rows, note)


def swap_cells(found: Heads, number: int) -> Iterator[str]:
    """A cell a head."""
    for head in range(len(HEADS)):
        change = found.swap(number, head)
        yield f"{percent(float(np.expm1(change.mean)), sign=True)} ± {percent(change.stderr)}"


def winners_table(found: Sequence[Heads]) -> Table:
    """A row an arm."""
    columns = ("heads of", *(f"{SYMBOLS[head]} is best" for head in HEADS), "timesteps that keep their leader")
    rows = [
        (label(one.arm), *(percent(share) for share in one.wins("shares").mean(0)), percent(kept(one))) for one in found
    ]
    note = (
        "Of all images of the training, how many each head had the smallest error of; and the share of the timesteps "
        "that the same head leads in the first twentieth of the training and in the last."
    )
    return Table("Which head is best", columns, rows, note)


def kept(found: Heads) -> float:
    """Mean over blocks."""
    return float(found.wins("kept_lead").mean())


def combination_rows(found: Sequence[Heads]) -> list[dict[str, Any]]:
    """A row a block and combination."""
    return [
        {"arm": one.arm, "block": block["block"], "combination": name}
        | {figure: rounded(value) for figure, value in block["combinations"][name].items()}
        for one in found
        for block in one.blocks
        for name in COMBINATIONS
    ]


def swap_rows(found: Sequence[Heads]) -> list[dict[str, Any]]:
    """A row a block, range and head."""
    return [
        {"arm": one.arm, "block": block["block"], "first": part.first, "last": part.last, "head": head}
        | {"fid": rounded(block["swaps"]["fid"][number][place]), "fid_of_least": rounded(block["swaps"]["least"])}
        for one in found
        for block in one.blocks
        for number, part in enumerate(one.ranges)
        for place, head in enumerate(HEADS)
    ]
