"""Verdicts of a comparison: every endpoint is a family of comparisons that are judged together."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from unequal.comparison.results import ComparisonResults
from unequal.comparison.settings import Contrast
from unequal.statistics.estimates import BlockModel, Estimate, welch
from unequal.statistics.power import Design, upper_deviation, visible_effect
from unequal.statistics.verdicts import Verdict, interval, judge

#: A variant is reported as scattering differently above this multiple of the median deviation: in simulations, verdicts
#: hold up to it. With fewer variants than LEAST_ARMS, residuals do not show which one scatters.
UNLIKE, LEAST_ARMS = 2.0, 4


@dataclass(frozen=True)
class Family:
    """An endpoint's comparisons.

    Attributes:
        endpoint: its name.
        delta: δ in ln(endpoint).
        needed: the difference in ln(endpoint) that must be detectable; otherwise, differences below `visible` are not
            judged.
        visible: the difference that this number of blocks detects in four of five studies, for each comparison, by the
            scatter of the trainings.
        verdicts: one for each planned comparison.
        repeated: the verdict on the repeated control (A/A), which does not belong to the family.
        alone: each comparison's 95 % interval from its two variants alone, A/A included; no verdict uses it.
        deviations: standard deviation of each pooled variant's trainings within blocks, in ln(endpoint).
    """

    endpoint: str
    delta: float
    needed: float
    visible: Mapping[Contrast, float]
    verdicts: Mapping[Contrast, Verdict]
    repeated: Verdict
    alone: Mapping[Contrast, tuple[float, float]]
    deviations: Mapping[str, float]

    @property
    def unlike(self) -> dict[str, float]:
        """Pooled variants whose deviation is more than twice the median, with their deviations."""
        usual = median(self.deviations.values()) if self.deviations else 0.0
        return {arm: one for arm, one in self.deviations.items() if one > UNLIKE * usual}

    def document(self) -> dict[str, Any]:
        """The family as JSON."""
        comparisons = {
            f"{one.arm} against {one.control}": asdict(finding)
            | {"alone": list(self.alone[one]), "visible": self.visible[one]}
            for one, finding in self.verdicts.items()
        }
        repeated = asdict(self.repeated)
        known = {"delta": self.delta, "needed": self.needed, "deviations": dict(self.deviations)}
        return known | {"comparisons": comparisons, "repeated": repeated}


def families(results: ComparisonResults) -> list[Family]:
    """Judge all endpoints' comparisons."""
    return [family(results, endpoint) for endpoint in results.plan.judged]


def family(results: ComparisonResults, endpoint: str) -> Family:
    """Judge the comparisons by one endpoint."""
    plan = results.plan
    planned, repeated, delta, asked = plan.compared, plan.repeated, plan.judged[endpoint], plan.needed(endpoint)
    seen = {one: visible(results, endpoint, one) for one in (*planned, repeated)}

    def judged(*comparisons: Contrast) -> list[Verdict]:
        estimates = [estimate(results, endpoint, one) for one in comparisons]
        return judge(estimates, delta, [seen[one] for one in comparisons], asked)

    (again,) = judged(repeated)  # by itself, since it is a check and not a question of the study
    apart = {one: interval(estimate_alone(results, endpoint, one)) for one in (*planned, repeated)}
    return Family(
        endpoint=endpoint,
        delta=delta,
        needed=asked,
        visible={one: seen[one] for one in planned},
        verdicts=dict(zip(planned, judged(*planned), strict=True)),
        repeated=again,
        alone=apart,
        deviations=deviations(results, endpoint),
    )


def visible(results: ComparisonResults, endpoint: str, comparison: Contrast) -> float:
    """Difference in ln(endpoint) that a comparison detects in four of five cases, by the 80 % bound of its scatter.

    The scatter is estimated from residuals, which do not depend on differences between variants: to plan by it favours
    no verdict.
    """
    if comparison.test == "welch":
        values = results.logarithms(endpoint, comparison.arms)
        variance, freedom, arms = float(values.var(1, ddof=1).mean()), values.shape[1] - 1, 2
    else:
        own = pooled(results, endpoint) if comparison.test == "pooled" else alone(results, endpoint, comparison)
        variance, freedom, arms = own.pooled_variance, own.freedom, len(own.arms)
    design = Design(arms, len(results.plan.seeds), len(results.plan.compared))
    return visible_effect(design, upper_deviation(variance**0.5, freedom))


def estimate(results: ComparisonResults, endpoint: str, comparison: Contrast) -> Estimate:
    """Difference of two variants, with its error by the test that the plan names."""
    if comparison.test == "pooled":
        return pooled(results, endpoint).contrast(*comparison.arms)
    return estimate_alone(results, endpoint, comparison)


def estimate_alone(results: ComparisonResults, endpoint: str, comparison: Contrast) -> Estimate:
    """Difference of two variants from these alone: Student's paired test, or Welch's where no blocks are shared."""
    if comparison.test == "welch":
        return welch(*results.logarithms(endpoint, comparison.arms).tolist())
    return alone(results, endpoint, comparison).contrast(*comparison.arms)


def alone(results: ComparisonResults, endpoint: str, comparison: Contrast) -> BlockModel:
    """Block model of two variants alone."""
    return BlockModel(comparison.arms, results.logarithms(endpoint, comparison.arms))


def pooled(results: ComparisonResults, endpoint: str) -> BlockModel:
    """Block model of the variants that share a variance."""
    arms = results.plan.pooled_arms
    return BlockModel(arms, results.logarithms(endpoint, arms))


def deviations(results: ComparisonResults, endpoint: str) -> dict[str, float]:
    """Deviation of each pooled variant within blocks; empty where there are too few variants to distinguish them."""
    if len(results.plan.pooled_arms) < LEAST_ARMS:
        return {}
    blocks = pooled(results, endpoint)
    return dict(zip(blocks.arms, blocks.deviations.tolist(), strict=True))
