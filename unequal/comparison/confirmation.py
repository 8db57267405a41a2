"""The arm that came first among many, trained once more with its control in blocks that had no say in that."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from unequal.artifacts.figures import Figures, read_figures
from unequal.comparison.measuring import Measuring
from unequal.comparison.params import ComparisonParams
from unequal.comparison.results import ComparisonResults, TrainingFigures
from unequal.comparison.settings import arm_seed, shortened, shortened_plan
from unequal.comparison.training import (
    Block,
    NetworkSettings,
    costs_of,
    made_by,
    own_costs,
    train_plan,
)
from unequal.errors import UserError
from unequal.experts.plan import ExpertsJob
from unequal.files import read_json
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe
from unequal.settings.strict import Strict, validate
from unequal.settings.values import Name
from unequal.statistics.estimates import BlockModel, Estimate
from unequal.statistics.verdicts import Verdict, judge
from unequal.training.results import write_models
from unequal.workspace import Nested

#: Places of a pair.
FIRST, CONTROL = "first", "control"


class Named(Strict):
    """An arm with the settings that it was trained by: a recipe, or a plan that continues the base."""

    arm: Name
    recipe: Recipe | None = None
    batch_size: int | None = None
    plan: Plan | None = None


class First(Strict):
    """results/confirm/first.json. Arms are trained again as it says, so that a further arm does not make that stale."""

    first: Named
    control: Named
    base: Recipe | None = None

    @property
    def arms(self) -> dict[str, str]:
        """Place → arm."""
        return {FIRST: self.first.arm, CONTROL: self.control.arm}

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises UserError where it is missing or damaged."""
        return validate(cls, read_json(path), path)


class PairFigures(Figures):
    """results/confirm/block_<seed>.json: both trainings."""

    first: TrainingFigures
    control: TrainingFigures


def standings(results: ComparisonResults, arms: Sequence[str], endpoint: str) -> list[tuple[str, float]]:
    """Arms with the geometric mean of an endpoint over blocks, the best first."""
    means = np.exp(results.logarithms(endpoint, arms).mean(1)).tolist()
    return sorted(zip(arms, means, strict=True), key=lambda one: one[1])


def named_first(results: ComparisonResults, params: ComparisonParams) -> First:
    """The arm that came first, and the control of all arms."""
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
    """Train one arm of a pair within a fresh block, and measure it.

    Args:
        measuring: measures the block; its workspace holds the trainings.
        settings: by which fresh weights are trained.
        place: of the arm in the pair.
        named: the arm.
        base: the recipe of the base that plans continue.
    """
    run, data, block, arm = measuring.workspace, measuring.data, measuring.block, named.arm
    folder = run.work / f"{place}_models"
    if named.recipe is not None:
        training = Block(settings, data, block, named.batch_size, measuring.settings.profile)
        outcome = training.train(Nested(run, place), named.recipe, arm)
        write_models(folder, outcome)
        costs = costs_of(outcome)
        known = made_by(settings.schedule, settings.network, outcome.job.training, outcome.job.recipe)
    elif named.plan is not None and base is not None:
        # Both arms of a pair continue one base, whose training the second one finds finished.
        write_models(root := run.work / "base", Block(settings, data, block).train(Nested(run, "base"), base, "base"))
        job = ExpertsJob(named.plan, f"{arm}/block_{block}", root, data, settings.training, arm_seed(block, arm))
        costs = own_costs(train_plan(Nested(run, place), job, folder))
        known = made_by(settings.training, named.plan)
    else:
        raise UserError(f"results/confirm/first.json: '{arm}' has neither recipe nor plan; name the first arm again")
    figures = measuring.figures(folder, place)
    return {"arm": arm, "block": block} | figures | {"costs": figures["costs"] | costs} | known


def read_pairs(folder: Path, results: ComparisonResults) -> list[Mapping[str, Any]]:
    """Both trainings of every fresh block, each with its figures.

    Raises:
        UserError: a file lacks a figure, or holds another arm than the one that came first.
    """
    comparison, arms = results.plan, First.load(folder / "first.json").arms
    files = [folder / f"block_{seed}.json" for seed in comparison.confirm.seeds]
    pairs: list[Mapping[str, Any]] = [read_figures(file, PairFigures) for file in files]
    for file, pair in zip(files, pairs, strict=True):
        for place in (FIRST, CONTROL):
            if (other := pair[place]["arm"]) != arms[place]:
                raise UserError(f"{file}: holds '{other}', {place} is '{arms[place]}'; train the block again")
            if gone := [one for one in comparison.endpoints if one not in pair[place]["endpoints"]]:
                raise UserError(f"{file}: endpoint '{gone[0]}' is missing; measure the trainings again")
    return pairs


def confirmed(results: ComparisonResults, pairs: Sequence[Mapping[str, Any]]) -> dict[str, Verdict]:
    """Verdict of fresh blocks on the first arm against the control, by endpoint."""
    pooled, verdicts = results.plan.pooled_arms, dict[str, Verdict]()
    for endpoint, delta in results.plan.endpoints.items():
        own = BlockModel(pooled, results.logarithms(endpoint, pooled))
        logs = [[pair[place]["endpoints"][endpoint] for place in (FIRST, CONTROL)] for pair in pairs]
        (verdicts[endpoint],) = judge([once_more(own, np.log(logs))], delta)
    return verdicts


def once_more(model: BlockModel, pairs: np.ndarray) -> Estimate:
    """Estimate a difference from pairs of ln(endpoint) [blocks, 2], arm and control.

    A few blocks show a difference, but hardly its scatter: that is taken from all pooled arms of the comparison, where
    the pairs do not scatter more.
    """
    differences = pairs[:, 0] - pairs[:, 1]
    squared = max(2 * model.pooled_variance, float(differences.var(ddof=1))) / len(differences)
    return Estimate(float(differences.mean()), squared**0.5, model.freedom)
