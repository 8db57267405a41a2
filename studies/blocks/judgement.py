"""The words of a study: every endpoint is a family of comparisons that are judged together."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from studies.blocks.findings import Found
from studies.blocks.settings import Comparison
from unequal.evidence.blocks import Blocks, Estimate, welch
from unequal.evidence.power import Design, visible_effect
from unequal.evidence.words import Finding, findings


@dataclass(frozen=True)
class Family:
    """An endpoint's comparisons.

    Attributes:
        endpoint: its name.
        delta: δ in ln(endpoint).
        visible: what as many blocks show in four of five studies, by the pilot's scatter; None: no pilot tells of it.
        found: what is said of each planned comparison.
        repeated: what would be said of the A/A arm, which is no part of the family.
    """

    endpoint: str
    delta: float
    visible: float | None
    found: Mapping[Comparison, Finding]
    repeated: Finding

    def document(self) -> dict[str, Any]:
        """As JSON."""
        told = {f"{one.arm} against {one.control}": asdict(finding) for one, finding in self.found.items()}
        return {"delta": self.delta, "visible": self.visible, "comparisons": told, "repeated": asdict(self.repeated)}


def families(found: Found, pilot: Mapping[str, Any]) -> list[Family]:
    """All endpoints' comparisons, judged; a comparison whose endpoint is not known in all blocks is left out.

    Args:
        found: the trainings.
        pilot: what `judge_pilot` has written.
    """
    again, judged = found.blocks.repeated.arms, found.blocks.judged.items()
    return [family(found, endpoint, delta, pilot) for endpoint, delta in judged if found.known(endpoint, again)]


def family(found: Found, endpoint: str, delta: float, pilot: Mapping[str, Any]) -> Family:
    """One endpoint's."""
    blocks = found.blocks
    planned = [one for one in blocks.compared if found.known(endpoint, one.arms)]
    repeated = blocks.repeated
    # One of (A/A, plan) is not looked at where the other is judged: it is a check, and no question of the study.
    (again,) = findings([estimate(found, endpoint, repeated)], delta)
    counts = len(found.complete), len(blocks.compared)
    visible = visible_here(blocks.pooled_arms, *counts, pilot["endpoints"].get(endpoint))
    judged = findings([estimate(found, endpoint, one) for one in planned], delta, visible) if planned else []
    return Family(endpoint, delta, visible, dict(zip(planned, judged, strict=True)), again)


def estimate(found: Found, endpoint: str, comparison: Comparison) -> Estimate:
    """The difference of two arms, with its error by the test that the plan names."""
    if comparison.test == "welch":
        return welch(*found.logarithms(endpoint, comparison.arms).tolist())
    # Of two arms alone this is Student's test of pairs, which asks for no equal variances.
    arms = comparison.arms if comparison.test == "paired" else found.blocks.pooled_arms
    arms = tuple(arm for arm in arms if found.known(endpoint, [arm]))
    return Blocks(arms, found.logarithms(endpoint, arms)).contrast(*comparison.arms)


def visible_here(
    pooled: Sequence[str], blocks: int, comparisons: int, pilot: Mapping[str, float] | None
) -> float | None:
    """The smallest effect that so many blocks promise to show, by the upper bound of the pilot's deviation."""
    if pilot is None:
        return None
    return visible_effect(Design(max(2, len(pooled)), blocks, comparisons), pilot["upper_deviation"])
