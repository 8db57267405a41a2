"""What a study is meant to see, and what so many of its blocks show by the scatter that its pilot has told."""

from collections.abc import Mapping
from math import inf
from typing import Annotated, Any

from pydantic import Field, PositiveFloat

from studies.blocks.settings import Blocks, Comparison
from unequal.evidence.power import Design, visible_effect
from unequal.settings.names import Name

#: `subject` in params.yaml.
Subject = Annotated[str, Field(min_length=1, description="what people call the images, as pages begin with it")]
#: `effects` in params.yaml.
Effects = Annotated[
    dict[Name, PositiveFloat],
    Field(
        description="what the claim is that the study asks about, as a difference of an endpoint's logarithm: half of "
        "it must be visible, or nothing is said of smaller differences than are; of an endpoint without one, δ must be"
    ),
]
#: By which of a pilot's figures trainings scatter, within blocks or with what blocks add.
DEVIATIONS = {"pooled": "upper_deviation", "paired": "upper_deviation", "welch": "whole_upper_deviation"}


def needed(effects: Mapping[str, float], endpoint: str, delta: float) -> float:
    """The difference of ln(endpoint) that has to be visible."""
    return effects[endpoint] / 2 if endpoint in effects else delta


def promised(test: str, plan: Blocks, blocks: int, pilot: Mapping[str, Any] | None) -> float:
    """The smallest difference of ln(endpoint) that a comparison by this test shows in four of five studies.

    Welch's test has the freedom of one of its arms or more, so it shows what is told here or less. Infinite where the
    pilot has told nothing of the endpoint.

    Args:
        test: of a comparison.
        plan: of the study.
        blocks: that are judged.
        pilot: what it has told of the endpoint.
    """
    if pilot is None or (deviation := pilot.get(DEVIATIONS[test])) is None:
        return inf
    arms = max(2, len(plan.pooled_arms)) if test == "pooled" else 2
    return visible_effect(Design(arms, blocks, len(plan.compared)), deviation)


def promised_all(plan: Blocks, blocks: int, pilot: Mapping[str, Any] | None) -> dict[Comparison, float]:
    """The same of all that is compared."""
    by_test = {test: promised(test, plan, blocks, pilot) for test in {one.test for one in plan.compared}}
    return {one: by_test[one.test] for one in plan.compared}
