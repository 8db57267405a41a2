"""Files of a race: a training's outcome, its scores, and the judge's document with all results so far."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unequal.errors import Diverged
from unequal.files import read_json, write_json
from unequal.race.bracket import measured
from unequal.race.plan import Rung
from unequal.race.standing import Candidate, Results

#: In the place of a model: why the training has none.
COLLAPSED = "collapsed.json"
#: A training whose samples are no closer to the real images than noise has learned nothing.
NOTHING = "its samples are no closer to the images than noise is"


def results_of(rung: Rung, noise: float) -> tuple[dict[Candidate, dict[int, float]], dict[str, str]]:
    """ln(FID) of all trainings of a rung, ∞ where one has collapsed, and why it has.

    Args:
        rung: its candidates and blocks.
        noise: FID of noise.

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
    """Results as JSON: a row a training, with null for ∞."""
    return [
        {"rung": rung, "arm": one.arm, "rate": one.rate, "block": block, "log_fid": value if value < math.inf else None}
        for rung, results in done.items()
        for one, blocks in results.items()
        for block, value in blocks.items()
    ]


def from_rows(rows: list[dict[str, Any]]) -> dict[str, dict[Candidate, dict[int, float]]]:
    """The inverse."""
    done: dict[str, dict[Candidate, dict[int, float]]] = {}
    for row in rows:
        value = math.inf if row["log_fid"] is None else row["log_fid"]
        candidate = Candidate(row["arm"], row["rate"])
        done.setdefault(row["rung"], {}).setdefault(candidate, {})[row["block"]] = value
    return done


def read_done(path: Path) -> dict[str, dict[Candidate, dict[int, float]]]:
    """All results up to a rung, from its judge's document. Raises UserError where it is missing or no JSON."""
    return from_rows(read_json(path)["results"])


def write_collapse(folder: Path, error: Diverged) -> dict[str, str]:
    """Say in the place of a model why its training has none; return it as figures of the training."""
    reason = str(error).partition(";")[0]
    write_json(folder / COLLAPSED, {"reason": reason})
    return {"collapsed": reason}
