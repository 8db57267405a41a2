"""What searches for pruning schemes came to, beside as many random schemes."""

from collections.abc import Mapping
from typing import Any

from unequal.report.page import Table
from unequal.report.tables import percent

COLUMNS = (
    "group",
    "schemes tried",
    "loss of the best",
    "on fresh draws",
    "best of as many random ones, on fresh draws",
    "change",
)
NOTE = (
    "The loss that the network is trained with, not weighted, in the group: after the search's own fine-tuning where "
    "there is one, before the network is trained on. The smallest of many losses "
    "is too small, since chance has helped to choose it: the best scheme is measured once more, on draws that none was "
    "chosen by, and so is the best of as many random schemes. Change: from that one. One search a group, so how much "
    "another would differ is not known."
)


def searches_table(searches: Mapping[int, Mapping[str, Any]]) -> Table:
    """A row a group that was pruned by a search.

    Args:
        searches: group → the figures of its pruned network.
    """
    return Table("Searches for what to prune", COLUMNS, [row(*one) for one in searches.items()], NOTE)


def row(group: int, found: Mapping[str, Any]) -> tuple[str, ...]:
    """A search as text."""
    fresh, control = found["fresh_loss"], found.get("control_fresh_loss")
    beside = ("–", "–") if control is None else (f"{control:.4g}", percent(fresh / control - 1, sign=True))
    return str(group), str(found["candidates"]), f"{found['loss']:.4g}", f"{fresh:.4g}", *beside
