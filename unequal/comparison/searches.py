"""Searches for what to prune: the losses that each round found, and what a language model was asked for them."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from unequal.comparison.results import file_of
from unequal.comparison.settings import Comparison
from unequal.report.formatting import label, plus_minus
from unequal.report.page import Table
from unequal.report.pipeline_tables import REQUEST_COLUMNS, REQUESTS_NOTE, known, requests_table
from unequal.runtime.files import read_json

COLUMNS = ("variant", "block", "group", "schemes tried", "best loss after each round", "on fresh draws")
NOTE = (
    "Unweighted training loss in the group, after the search's own fine-tuning and before further training. Round 0 "
    "are the schemes that the search begins with. The smallest of many losses is biased by the choice, so the best "
    "scheme is measured again on fresh draws."
)


#: Figures of a scheme that a search tried.
TRIED = ("round", "candidate", "proposer", "loss")
#: Variant, block and number of a group, and how it was pruned.
Search = tuple[str, int, int, Mapping[str, Any]]


def read_searches(plan: Comparison, trainings: Path) -> list[Search]:
    """Read the searches of all trainings. Raises UserError where a training's figures are missing or damaged."""
    return [
        (arm, block, number, group["pruning"])
        for arm in plan.arms.continued
        for block in plan.seeds
        for number, group in enumerate(read_json(trainings / file_of(arm, block)).get("groups", ()))
        if (group.get("pruning") or {}).get("bank")
    ]


def search_tables(searches: Sequence[Search]) -> list[Table]:
    """Tables of the rounds, and of requests to a language model; none where nothing was searched for."""
    if not searches:
        return []
    rounds = [
        (label(arm), str(block), str(group), str(len(pruning["bank"])), *losses(pruning))
        for arm, block, group, pruning in searches
    ]
    asked = [
        (label(arm), str(block), *row)
        for arm, block, group, pruning in searches
        if (table := requests_table({group: pruning})) is not None
        for row in table.rows
    ]
    tables = [Table("Searches, round by round", COLUMNS, rounds, NOTE)]
    if asked:
        tables.append(
            Table("Requests to the language model", ("variant", "block", *REQUEST_COLUMNS), asked, REQUESTS_NOTE)
        )
    return tables


def losses(pruning: Mapping[str, Any]) -> tuple[str, str]:
    """The smallest loss after each round, and that of the best scheme on fresh draws."""
    by_round = groupby(sorted(pruning["bank"], key=itemgetter("round")), itemgetter("round"))
    best, course = float("inf"), []
    for _, tried in by_round:
        best = min(best, *(one["loss"] for one in tried))
        course.append(plus_minus(best, None))
    return ", ".join(course), known(pruning.get("fresh_loss"))


def search_rows(searches: Sequence[Search]) -> list[dict[str, Any]]:
    """Rows of a CSV: every scheme that was tried."""
    return [
        {"arm": arm, "block": block, "group": group} | {name: one[name] for name in TRIED}
        for arm, block, group, pruning in searches
        for one in pruning["bank"]
    ]
