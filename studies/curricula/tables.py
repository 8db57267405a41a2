"""What the study says beside what all studies in blocks say."""

from collections.abc import Sequence

import numpy as np

from studies.curricula.ease import NEAR, OF_NOTHING, Ease
from unequal.report.formatting import label, percent, with_prefix
from unequal.report.page import Table

COLUMNS = (
    "images",
    "way done near data",
    "near noise",
    "more near noise by",
    "95 % interval",
    "loss above its end near data",
    "near noise",
    "more near noise by a factor of",
    "95 % interval",
)


def ease_table(told: Sequence[Ease], arm: str) -> Table:
    """A row a snapshot."""
    note = (
        f"Of {label(arm)}, over its trainings. The way is that from the loss of a network that answers 0, which is "
        f"{OF_NOTHING:g}, to the loss at the end; near data are the first {NEAR:.0%} of the timesteps, near noise the "
        "last, in bins that lie wholly there. Learning is easier near noise by the first measure where more of the way "
        "is done there, and harder by the second where the loss is still a larger multiple of that at the end."
    )
    return Table("Is learning easier near noise?", COLUMNS, [row(one) for one in told], note)


def ease_rows(told: Sequence[Ease]) -> list[dict[str, float]]:
    """The same as numbers: means over trainings, and leads with their 95 % interval."""
    return [
        {
            "images": one.images,
            **dict(zip(("done_near_data", "done_near_noise"), map(mean, one.at_ends(one.done)), strict=True)),
            **dict(zip(("lead", "lead_low", "lead_high"), one.lead(one.done), strict=True)),
            **dict(zip(("factor", "factor_low", "factor_high"), np.exp(one.lead(one.excess)).tolist(), strict=True)),
        }
        for one in told
    ]


def mean(values: np.ndarray) -> float:
    """As a number of Python's."""
    return float(values.mean())


def row(one: Ease) -> tuple[str, ...]:
    """A snapshot, by both measures."""
    done, excess = one.at_ends(one.done), one.at_ends(one.excess)
    lead, low, high = one.lead(one.done)
    factor, least, most = np.exp(one.lead(one.excess))
    return (
        with_prefix(one.images),
        *(percent(float(share.mean())) for share in done),
        percent(lead, sign=True),
        f"{percent(low, sign=True)} … {percent(high, sign=True)}",
        *(percent(float(np.expm1(log.mean())), sign=True) for log in excess),
        f"{factor:.3g}",
        f"{least:.3g} … {most:.3g}",
    )
