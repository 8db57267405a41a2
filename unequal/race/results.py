"""Files of a race: outcome and scores of each training, and the judge's document with all results so far."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unequal.errors import Diverged
from unequal.race.bracket import measured
from unequal.race.plan import Rung
from unequal.race.standing import Candidate, Results
from unequal.runtime.files import read_json, write_json

#: File that replaces the model of a collapsed training and gives the reason.
COLLAPSED = "collapsed.json"
#: A training whose samples are no closer to the real images than noise has learned nothing.
NOTHING = "its samples are no closer to the images than noise is"


def results_of(rung: Rung, noise: float) -> tuple[dict[Candidate, dict[int, float]], dict[str, str]]:
    """Read ln(FID) of all trainings of a rung, ∞ for a collapsed one, and the reasons of collapses.

    Args:
        rung: candidates and blocks.
        noise: FID of noise, which every sound training must beat.

    Raises:
        UserError: a file is missing.
    """
    results: dict[Candidate, dict[int, float]] = {one: {} for one in rung.candidates}
    reasons: dict[str, str] = {}
    for one in rung.candidates:
        for block in rung.blocks:
            path = measured(rung.name, one, block)
            document = read_json(path)
            reason = document["collapsed"] or (NOTHING if document["fid"] >= noise else None)
            if reason is not None:
                reasons[path.stem] = reason
            results[one][block] = math.inf if reason else math.log(document["fid"])
    return results, reasons


def as_rows(done: Mapping[str, Results]) -> list[dict[str, Any]]:
    """Convert results to JSON: one row per training, with null for ∞."""
    return [
        {"rung": rung, "arm": one.arm, "rate": one.rate, "block": block, "log_fid": value if value < math.inf else None}
        for rung, results in done.items()
        for one, blocks in results.items()
        for block, value in blocks.items()
    ]


def from_rows(rows: list[dict[str, Any]]) -> dict[str, dict[Candidate, dict[int, float]]]:
    """Convert rows of `as_rows` back to results."""
    done: dict[str, dict[Candidate, dict[int, float]]] = {}
    for row in rows:
        value = math.inf if row["log_fid"] is None else row["log_fid"]
        candidate = Candidate(row["arm"], row["rate"])
        done.setdefault(row["rung"], {}).setdefault(candidate, {})[row["block"]] = value
    return done


def read_done(path: Path) -> dict[str, dict[Candidate, dict[int, float]]]:
    """Read all results up to a rung from its judge's document. Raises UserError where it is missing or not JSON."""
    return from_rows(read_json(path)["results"])


def write_collapse(folder: Path, error: Diverged) -> dict[str, str]:
    """Write the reason of a collapse in place of the model; return it as figures of the training."""
    reason = str(error).partition(";")[0]
    write_json(folder / COLLAPSED, {"reason": reason})
    return {"collapsed": reason}
