"""Confirmation: the best variant of a comparison and its control, trained again in blocks that did not select it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unequal.comparison.measuring import Measuring
from unequal.comparison.params import ComparisonParams
from unequal.comparison.results import ComparisonResults, TrainingFigures
from unequal.comparison.settings import arm_seed, shortened, shortened_plan
from unequal.comparison.training import (
    Block,
    NetworkSettings,
    costs_of,
    own_costs,
    train_plan,
)
from unequal.experts.plan import ExpertsJob
from unequal.report.figures import Figures, read_figures
from unequal.runtime.workspace import nested
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe
from unequal.settings.strict import Strict
from unequal.settings.values import Name
from unequal.statistics.estimates import BlockModel, Estimate
from unequal.statistics.verdicts import Verdict, judge
from unequal.training.results import write_models

#: Roles in a pair of trainings.
FIRST, CONTROL = "first", "control"


class Named(Strict):
    """A variant with the settings that it was trained with: a recipe, or a plan that continues the base."""

    arm: Name
    recipe: Recipe | None = None
    batch_size: int | None = None
    plan: Plan | None = None


class First(Strict):
    """results/confirm/first.json: the settings of the pair, so that a new variant does not make its trainings stale."""

    first: Named
    control: Named
    base: Recipe | None = None


class PairFigures(Figures):
    """results/confirm/block_<seed>.json: both trainings."""

    first: TrainingFigures
    control: TrainingFigures


def standings(results: ComparisonResults, arms: Sequence[str], endpoint: str) -> list[tuple[str, float]]:
    """Variants with the geometric mean of an endpoint over blocks, the best first."""
    means = np.exp(results.logarithms(endpoint, arms).mean(1)).tolist()
    return sorted(zip(arms, means, strict=True), key=lambda one: one[1])


def named_first(results: ComparisonResults, params: ComparisonParams) -> First:
    """Name the best variant and the control, with their settings."""
    comparison = params.comparison
    endpoint: str = comparison.confirm.by or next(iter(comparison.endpoints))
    best, _ = standings(results, comparison.candidates, endpoint)[0]

    def named(arm: str) -> Named:
        tried = params.pilot.tried(arm)
        if arm in params.plans:
            return Named(arm=arm, plan=shortened_plan(params.plans[arm], 1.0, tried))
        recipe = shortened(params.recipes[arm], 1.0, tried)
        return Named(arm=arm, recipe=recipe, batch_size=comparison.batch_sizes.get(arm))

    base = params.recipes["base"] if comparison.arms.bases else None
    return First(first=named(best), control=named(comparison.repeated.control), base=base)


def trained_again(
    measuring: Measuring, settings: NetworkSettings, place: str, named: Named, base: Recipe | None
) -> dict[str, Any]:
    """Train one variant of a pair within a fresh block, and measure it.

    Args:
        measuring: measures the block; its workspace holds the trainings.
        settings: settings of trainings from fresh weights.
        place: role in the pair, FIRST or CONTROL.
        named: the variant.
        base: recipe of the base that plans continue; None: no plan continues one.
    """
    run, data, block, arm = measuring.workspace, measuring.data, measuring.block, named.arm
    folder = run.work / f"{place}_models"
    if named.recipe is not None:
        training = Block(settings, data, block, named.batch_size, measuring.settings.profile)
        outcome = training.train(nested(run, place), named.recipe, arm)
        write_models(folder, outcome)
        costs = costs_of(outcome)
    else:
        assert named.plan is not None
        assert base is not None
        # Both variants of a pair continue one base; the second one finds its training finished.
        write_models(root := run.work / "base", Block(settings, data, block).train(nested(run, "base"), base, "base"))
        job = ExpertsJob(named.plan, f"{arm}/block_{block}", root, data, settings.training, arm_seed(block, arm))
        costs = own_costs(train_plan(nested(run, place), job, folder))
    figures = measuring.figures(folder, place)
    return {"arm": arm, "block": block} | figures | {"costs": figures["costs"] | costs}


def read_pairs(folder: Path, seeds: Sequence[int]) -> list[Mapping[str, Any]]:
    """Read both trainings of every fresh block. Raises UserError where a file is missing or damaged."""
    return [read_figures(folder / f"block_{seed}.json", PairFigures) for seed in seeds]


def confirmed(results: ComparisonResults, pairs: Sequence[Mapping[str, Any]]) -> dict[str, Verdict]:
    """Verdict of the fresh blocks on the best variant against the control, by endpoint."""
    pooled, verdicts = results.plan.pooled_arms, dict[str, Verdict]()
    for endpoint, delta in results.plan.endpoints.items():
        own = BlockModel(pooled, results.logarithms(endpoint, pooled))
        logs = [[pair[place]["endpoints"][endpoint] for place in (FIRST, CONTROL)] for pair in pairs]
        (verdicts[endpoint],) = judge([once_more(own, np.log(logs))], delta)
    return verdicts


def once_more(model: BlockModel, pairs: np.ndarray) -> Estimate:
    """Estimate a difference from pairs of ln(endpoint) [blocks, 2], variant and control.

    A few blocks estimate a difference, but hardly its scatter. The variance is therefore that of all pooled variants of
    the comparison, or that of the pairs if it is larger.
    """
    differences = pairs[:, 0] - pairs[:, 1]
    squared = max(2 * model.pooled_variance, float(differences.var(ddof=1))) / len(differences)
    return Estimate(float(differences.mean()), squared**0.5, model.freedom)
