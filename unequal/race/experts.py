"""Experts as a variant: a base of the variant's recipe, and for each group of timesteps a model trained from it."""

from pathlib import Path
from typing import Any

from unequal.comparison.settings import shortened
from unequal.comparison.training import costs_of, own_costs, train_plan
from unequal.data.prepared import PreparedData
from unequal.experts.plan import ExpertsJob
from unequal.race.training import ArmSettings, train_arm
from unequal.randomness import torch_seed
from unequal.runtime.workspace import Workspace, nested
from unequal.settings.groups import Plan
from unequal.settings.race import Experts
from unequal.settings.recipe import RangeRecipe, Recipe
from unequal.settings.samplers import Slot
from unequal.training.results import write_models


def base_recipe(experts: Experts, recipe: Recipe) -> Recipe:
    """Recipe of the base: the variant's, for the base's share of the images."""
    return shortened(recipe, experts.base_share)


def plan_of_experts(experts: Experts, recipe: Recipe) -> Plan:
    """Plan of the experts that continue the base; together they see the remaining images of the variant's recipe."""
    rest = recipe.images - base_recipe(experts, recipe).images
    own = shortened(recipe, rest / recipe.images)
    optimizer = own.optimizer.model_copy(update={"warmup_images": own.optimizer.warmup_images // experts.count})
    return Plan(
        groups=experts.groups,
        pruning=None,
        start="base",
        recipe=RangeRecipe(
            images=rest,
            prediction=own.prediction,
            sampler=Slot(density="slot"),
            loss_weight=own.loss_weight,
            optimizer=optimizer,
            average=own.average,
        ),
    )


def train_experts(
    workspace: Workspace, settings: ArmSettings, recipe: Recipe, data: PreparedData, name: str, block: int, folder: Path
) -> dict[str, Any]:
    """Train base and experts into a folder, with one model per group; return their total cost.

    Raises:
        Diverged: a loss becomes NaN or infinite.
    """
    experts = settings.arm.experts
    assert experts is not None
    base = workspace.work / "base_model"
    outcome = train_arm(nested(workspace, "base"), settings, base_recipe(experts, recipe), data, f"{name}/base", block)
    write_models(base, outcome)
    plan = plan_of_experts(experts, recipe)
    job = ExpertsJob(plan, name, base, data, settings.training, torch_seed(block))
    costs, more = costs_of(outcome), own_costs(train_plan(nested(workspace, "experts"), job, folder))
    return {key: costs[key] + more[key] for key in costs}
