"""Document of a judge: all results so far, the standing of the rung, and the candidates that go on."""

import math
from collections.abc import Mapping
from typing import Any

from unequal.race.bracket import plan_of
from unequal.race.claim import Claim
from unequal.race.plan import CONFIRM, Rung, claim_of
from unequal.race.results import as_rows
from unequal.race.standing import Candidate, Results, means
from unequal.settings.race import Race

#: Fates of a candidate in a rung.
GOES_ON, OUT, COLLAPSED, ENDED = "goes on", "out", "collapsed", "ended"


def fate(candidate: Candidate, mean: float, following: Rung | None) -> str:
    """Fate of a candidate after a rung."""
    if not math.isfinite(mean):
        return COLLAPSED
    if following is None:
        return ENDED
    return GOES_ON if candidate in following.candidates else OUT


def standing_document(
    race: Race, done: Mapping[str, Results], collapsed: Mapping[str, str], following: Rung | None
) -> dict[str, Any]:
    """Document of the last rung that is done.

    Args:
        race: settings of the race.
        done: results of all rungs so far.
        collapsed: collapsed trainings of the last rung, with the reason.
        following: the next rung; None: the race has ended.
    """
    rung = list(done)[-1]
    standing = [
        {
            "arm": one.arm,
            "rate": one.rate,
            "fid": math.exp(mean) if math.isfinite(mean) else None,
            "trainings": len(done[rung][one]),
            "fate": fate(one, mean, following),
        }
        for one, mean in means(done[rung]).items()
    ]
    document = {
        "rung": rung,
        "standing": standing,
        "collapsed": dict(collapsed),
        "next": None if following is None else following.name,
        "results": as_rows(done),
    }
    return document | ({"claim": claim_document(claim_of(plan_of(race), done))} if CONFIRM in done else {})


def claim_document(claim: Claim) -> dict[str, Any]:
    """Convert a claim to JSON, with relative differences of FID."""
    known = claim.estimate
    return {
        "word": claim.word,
        "change": None if known is None else math.expm1(known.difference),
        "low": math.expm1(claim.low) if math.isfinite(claim.low) else None,
        "high": math.expm1(claim.high) if math.isfinite(claim.high) else None,
        "log_difference": None if known is None else known.difference,
        "log_error": None if known is None else known.error,
        "freedom": None if known is None else known.freedom,
        "blocks": claim.blocks,
        "visible": math.expm1(claim.visible) if math.isfinite(claim.visible) else None,
        "collapsed": {"winner": claim.collapsed[0], "control": claim.collapsed[1]},
    }
