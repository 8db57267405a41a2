"""Numbers in, verdicts out: by one rule, whatever the claim.

Every claim comes down to comparisons, each a difference that counts positive where it speaks for
the claim, with its spread; see `decide`.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from scipy.stats import t as student_t

HELD, NOT_HELD, UNDECIDED = "held", "not held", "undecided"
#: A difference counts where it exceeds so many spreads.
SPREADS = 2.0
#: A claim about many things holds where so large a share of them bears it out.
SHARE = 0.75
SEVERAL = "held where at least ¾ of the comparisons pass, not held where more than ¼ go the other way"


class Evidence(NamedTuple):
    """A difference, positive where it speaks for the claim, and its spread; None: nothing is known of it."""

    difference: float
    spread: float | None

    @property
    def side(self) -> int:
        """1: for the claim, −1: against it, 0: within the spread."""
        if self.spread is None or abs(self.difference) <= SPREADS * self.spread:
            return 0
        return 1 if self.difference > 0 else -1


@dataclass(frozen=True)
class Verdict:
    """A claim, what was found, and the rule that decided.

    Attributes:
        key: short name.
        paper: whose claim it is, 1, 2 or 3; None: ours.
        figures: the numbers behind the verdict.
        summary: the same as a sentence.
    """

    key: str
    paper: int | None
    claim: str
    verdict: str
    figures: dict[str, float]
    summary: str
    rule: str


def decide(evidence: Sequence[Evidence]) -> str:
    """`held` where at least ¾ of the evidence is for the claim, `not held` where more than ¼ is against it."""
    sides = [one.side for one in evidence]
    if sides and sides.count(1) >= SHARE * len(sides):
        return HELD
    return NOT_HELD if sides.count(-1) > (1 - SHARE) * len(sides) else UNDECIDED


def combined(*spreads: float | None) -> float | None:
    """Spread of a difference of independent figures; None where one of theirs is."""
    known = [spread for spread in spreads if spread is not None]
    return math.hypot(*known) if len(known) == len(spreads) else None


def paired(differences: Sequence[float]) -> Evidence:
    """Evidence of differences between runs that share their seed, one a seed.

    The spread is half the 95 % interval of their mean (Student's t), so that the one rule, twice the
    spread, decides at that level however few the seeds are.
    """
    count = len(differences)
    if count < 2:
        return Evidence(statistics.fmean(differences), None)
    error = statistics.stdev(differences) / math.sqrt(count)
    return Evidence(statistics.fmean(differences), float(student_t.ppf(0.975, count - 1)) / SPREADS * error)


def verdict_document(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Verdicts as JSON: counts and one word a claim on top, where metrics are compared, then all about each."""
    counts = {word.replace(" ", "_"): sum(one.verdict == word for one in verdicts) for word in (HELD, NOT_HELD)}
    counts[UNDECIDED] = len(verdicts) - sum(counts.values())
    return {
        "counts": counts,
        "verdicts": {one.key: one.verdict for one in verdicts},
        "claims": [asdict(one) for one in verdicts],
    }


def needed(evidence: Evidence) -> str:
    """What a difference must exceed to decide, where that is known."""
    return "" if evidence.spread is None else f", {SPREADS * evidence.spread:.2g} needed to decide"


def signed(value: float) -> str:
    """Three significant digits and the sign."""
    return f"{value:+.3g}".replace("-", "−")


def tally(evidence: Sequence[Evidence]) -> dict[str, float]:
    """How many comparisons there were, and how many spoke for and against."""
    sides = [one.side for one in evidence]
    return {"comparisons": len(sides), "for": sides.count(1), "against": sides.count(-1)}


def known_limit(evidence: Evidence) -> dict[str, float]:
    """The difference, and what it must exceed where that is known."""
    limit = {} if evidence.spread is None else {"needed": SPREADS * evidence.spread}
    return {"difference": evidence.difference, **limit}
