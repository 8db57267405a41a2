"""The words of a study: every endpoint is a family of comparisons that are judged together."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from statistics import median
from typing import Any

from unequal.comparison.pilot import promised
from unequal.comparison.results import Found
from unequal.comparison.settings import Contrast, Scatter
from unequal.statistics.estimates import BlockModel, Estimate, welch
from unequal.statistics.power import Design, upper_deviation, visible_effect
from unequal.statistics.verdicts import Verdict, interval, judge

#: An arm is told to scatter otherwise than the rest from so many times the middle one's deviation on: simulated words
#: hold up to there. Of fewer arms than these, residuals do not tell which one scatters.
UNLIKE, LEAST_ARMS = 2.0, 4


@dataclass(frozen=True)
class Family:
    """An endpoint's comparisons.

    Attributes:
        endpoint: its name.
        delta: δ in ln(endpoint).
        needed: the difference that has to be visible, or nothing is said of smaller ones than are.
        visible: the difference that as many blocks show of each comparison in four of five studies, by the scatter
            that the plan names; infinite where the pilot has told nothing of the endpoint.
        scatter: whose that is.
        own: the same by the scatter of the study's own trainings, whatever the plan names.
        found: what is said of each planned comparison.
        repeated: what would be said of the A/A arm, which is no part of the family.
        alone: each comparison's 95 % interval by its two arms alone, A/A too; no word goes by it.
        deviations: how each pooled arm's trainings scatter within blocks, in ln(endpoint).
    """

    endpoint: str
    delta: float
    needed: float
    visible: Mapping[Contrast, float]
    scatter: Scatter
    own: Mapping[Contrast, float]
    found: Mapping[Contrast, Verdict]
    repeated: Verdict
    alone: Mapping[Contrast, tuple[float, float]]
    deviations: Mapping[str, float]

    @property
    def unlike(self) -> dict[str, float]:
        """Pooled arms that scatter more than twice as much as the middle one, with their deviations."""
        usual = median(self.deviations.values()) if self.deviations else 0.0
        return {arm: one for arm, one in self.deviations.items() if one > UNLIKE * usual}

    def document(self) -> dict[str, Any]:
        """The family as JSON."""
        told = {
            f"{one.arm} against {one.control}": asdict(finding)
            | {"alone": list(self.alone[one]), "visible": finite(self.visible[one]), "visible_by_own": self.own[one]}
            for one, finding in self.found.items()
        }
        repeated = asdict(self.repeated)
        known = {"delta": self.delta, "needed": self.needed, "deviations": dict(self.deviations)}
        return known | {"comparisons": told, "repeated": repeated}


def finite(value: float) -> float | None:
    """The value, or None where it is infinite, which JSON does not know."""
    return value if isfinite(value) else None


def families(found: Found, pilot: Mapping[str, Any]) -> list[Family]:
    """Judge all endpoints' comparisons, given the trainings and the figures in results/pilot.json."""
    return [family(found, endpoint, pilot) for endpoint in found.plan.judged]


def family(found: Found, endpoint: str, pilot: Mapping[str, Any]) -> Family:
    """Judge the comparisons by one endpoint."""
    plan, count = found.plan, len(found.complete)
    planned, repeated, delta, asked = plan.compared, plan.repeated, plan.judged[endpoint], plan.needed(endpoint)
    own = {one: seen_by_own(found, endpoint, one) for one in (*planned, repeated)}
    told = pilot["endpoints"].get(endpoint)
    seen = own if plan.scatter == "blocks" else {one: promised(one.test, plan, count, told) for one in own}

    def judged(*comparisons: Contrast) -> list[Verdict]:
        estimates = [estimate(found, endpoint, one) for one in comparisons]
        return judge(estimates, delta, [seen[one] for one in comparisons], asked)

    (again,) = judged(repeated)  # by itself: it is a check, and no question of the study
    apart = {one: interval(estimate_alone(found, endpoint, one)) for one in (*planned, repeated)}
    return Family(
        endpoint=endpoint,
        delta=delta,
        needed=asked,
        visible={one: seen[one] for one in planned},
        scatter=plan.scatter,
        own={one: own[one] for one in planned},
        found=dict(zip(planned, judged(*planned), strict=True)),
        repeated=again,
        alone=apart,
        deviations=deviations(found, endpoint),
    )


def seen_by_own(found: Found, endpoint: str, comparison: Contrast) -> float:
    """The difference that a comparison detects in four of five cases, by an upper bound (80 %) of its scatter.

    These are residuals, which know nothing of differences between arms: to plan by them favours no word.
    """
    if comparison.test == "welch":
        values = found.logarithms(endpoint, comparison.arms)
        variance, freedom, arms = float(values.var(1, ddof=1).mean()), values.shape[1] - 1, 2
    else:
        own = pooled(found, endpoint) if comparison.test == "pooled" else alone(found, endpoint, comparison)
        variance, freedom, arms = own.pooled_variance, own.freedom, len(own.arms)
    design = Design(arms, len(found.complete), len(found.plan.compared))
    return visible_effect(design, upper_deviation(variance**0.5, freedom))


def estimate(found: Found, endpoint: str, comparison: Contrast) -> Estimate:
    """The difference of two arms, with its error by the test that the plan names."""
    if comparison.test == "welch":
        return welch(*found.logarithms(endpoint, comparison.arms).tolist())
    if comparison.test == "paired":
        return estimate_alone(found, endpoint, comparison)
    return pooled(found, endpoint).contrast(*comparison.arms)


def estimate_alone(found: Found, endpoint: str, comparison: Contrast) -> Estimate:
    """The difference of two arms by these alone: Student's test of pairs, or Welch's where no blocks are shared."""
    if comparison.test == "welch":
        return welch(*found.logarithms(endpoint, comparison.arms).tolist())
    return alone(found, endpoint, comparison).contrast(*comparison.arms)


def alone(found: Found, endpoint: str, comparison: Contrast) -> BlockModel:
    """Two arms by themselves."""
    return BlockModel(comparison.arms, found.logarithms(endpoint, comparison.arms))


def pooled(found: Found, endpoint: str) -> BlockModel:
    """The arms that share a variance."""
    arms = found.plan.pooled_arms
    return BlockModel(arms, found.logarithms(endpoint, arms))


def deviations(found: Found, endpoint: str) -> dict[str, float]:
    """How each pooled arm scatters within blocks, where there are enough to tell them apart."""
    if len(found.plan.pooled_arms) < LEAST_ARMS:
        return {}
    blocks = pooled(found, endpoint)
    return dict(zip(blocks.arms, blocks.deviations.tolist(), strict=True))
