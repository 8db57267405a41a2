"""What the base's loss profile shows, and what training inside a slot did to it, with standard errors over draws."""

import math
from collections.abc import Mapping, Sequence

from unequal.measures.loss_profile import LossProfile
from unequal.report.statements import Statement
from unequal.report.tables import Change, plus_minus

#: A change counts as a rise or a fall where it exceeds so many standard errors.
ERRORS = 2.0


def spread_of_losses(base: LossProfile) -> Statement:
    """By how much the losses of the base's timesteps differ."""
    high, low = int(base.mean.argmax()), int(base.mean.argmin())
    ratio = base.largest_over_smallest
    error = ratio * math.hypot(*(float(base.stderr[t] / base.mean[t]) for t in (high, low)))
    text = f"The base's training loss at t = {high} is {plus_minus(ratio, error)} times its loss at t = {low}."
    return Statement("losses", text, {"ratio": ratio, "ratio_stderr": error, "largest_at": high, "smallest_at": low})


def slot_statements(changes: Mapping[str, Sequence[Change]]) -> list[Statement]:
    """What training the base on inside one slot did to the losses inside and outside of it.

    Args:
        changes: of `train` and `holdout`; empty where no slot model was profiled.
    """
    return [
        *(own_slots(changes["train"], changes["holdout"]) if changes["train"] else []),
        *other_slots([one for one in changes["train"] if not one.own]),
    ]


def own_slots(train: Sequence[Change], holdout: Sequence[Change]) -> list[Statement]:
    """Losses inside the slots that were trained on."""
    own, held_out = ([one for one in split if one.own] for split in (train, holdout))
    text = (
        f"Training the base on inside one slot changed the training loss of that slot by {span(own)}, and its "
        f"held-out loss by {span(held_out)}."
    )
    figures = {f"{one.slot}_percent": 100 * one.change for one in own}
    figures |= {f"{one.slot}_holdout_percent": 100 * one.change for one in held_out}
    return [Statement("own_slot", text, figures | extremes(own))]


def other_slots(others: Sequence[Change]) -> list[Statement]:
    """Losses outside of the slots that were trained on; nothing where there are no others."""
    if not others:
        return []
    rose = sum(one.change > ERRORS * one.stderr for one in others)
    fell = sum(one.change < -ERRORS * one.stderr for one in others)
    text = (
        f"Of the {len(others)} training losses of other slots {rose} rose and {fell} fell by more than {ERRORS:g} "
        f"standard errors; they changed by {span(others)}."
    )
    return [Statement("other_slots", text, {"losses": len(others), "rose": rose, "fell": fell} | extremes(others))]


def extremes(changes: Sequence[Change]) -> dict[str, float]:
    """The smallest and the largest change."""
    percents = [100 * one.change for one in changes]
    return {"least_percent": min(percents), "most_percent": max(percents)}


def span(changes: Sequence[Change]) -> str:
    """From the smallest to the largest change, with standard errors."""
    least, most = (choose(changes, key=lambda one: one.change) for choose in (min, max))
    ends = [plus_minus(100 * one.change, 100 * one.stderr, signed=True) for one in (least, most)]
    return f"{ends[0]} %" if len(changes) == 1 else f"{ends[0]} to {ends[1]} %"
