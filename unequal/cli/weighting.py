"""Effective weighting of timesteps by recipes, density × loss weight, with what trainings have learned."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import Field
from safetensors.torch import load_file

from unequal.cli.architecture import Sections
from unequal.diffusion.schedule import NoiseSchedule, noise_schedule
from unequal.errors import UserError
from unequal.models.folder import OBJECTIVE, load_record
from unequal.report.drawing import save
from unequal.report.effective_weighting import EffectiveWeighting, draw, effective_weighting, learned_by
from unequal.settings.groups import Plan
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.timesteps.groups import planned_groups
from unequal.timesteps.partition import TimestepRange, TimestepSet
from unequal.training.objectives import objective_for
from unequal.training.timestep_files import read_groups, read_slots


class Recipes(Sections):
    """Recipes and plans."""

    schedule: Schedule
    recipes: dict[str, Recipe]
    plans: dict[str, Plan] = Field(default_factory=dict)

    def named(self, name: str) -> Recipe:
        """Recipe of this name, or that of the plan of this name. Raises UserError where there is none."""
        if name not in (known := self.recipes | {plan: one.recipe for plan, one in self.plans.items()}):
            raise UserError(f"recipes: there is no '{name}'; allowed: {', '.join(known)}")
        return known[name]

    def curves(self, name: str, folder: Path) -> list[EffectiveWeighting]:
        """Effective weightings of a recipe, or of a plan's: one, or one for each range that it trains inside.

        The params file's folder holds artifacts and results. Raises UserError where a recipe or a file is missing.
        """
        recipe, schedule, artifacts = self.named(name), noise_schedule(self.schedule), folder / "artifacts"
        samplers = artifacts / "samplers"
        if recipe.sampler.density != "slot":
            return [
                effective_weighting(name, recipe, schedule, samplers, learned=learned(name, recipe, schedule, folder))
            ]
        plan = None if name in self.recipes else self.plans[name]
        ranges = ranges_of(name, artifacts, schedule.timesteps) if plan is None else groups_of(name, plan, schedule)
        return [
            effective_weighting(f"{name}_{number}", recipe, schedule, samplers, one) for number, one in ranges.items()
        ]


def learned(name: str, recipe: Recipe, schedule: NoiseSchedule, folder: Path) -> dict[str, np.ndarray]:
    """Tables [T] of densities and weights that trainings of a recipe have learned, if any are stored."""
    if files := sorted((folder / "results/trainings" / name).glob("*.json")):
        return learned_by(files)
    return stored_weight(folder / "artifacts/models" / name, recipe, schedule)


def stored_weight(model: Path, recipe: Recipe, schedule: NoiseSchedule) -> dict[str, np.ndarray]:
    """Factors [T] of a weight whose parameters are stored with a model, under the key `factors`.

    The result is empty for other weights. Raises UserError where the stored weight was learned by other settings.
    """
    weight, file = recipe.loss_weight, model / OBJECTIVE
    if weight.fixed or not file.exists():
        return {}
    objective = objective_for(load_record(model).spec, schedule, weight)
    try:
        objective.load_state_dict(load_file(file), strict=False)
    except RuntimeError:
        raise UserError(f"{file}: learned by other settings; train {model.name} again") from None
    factors = objective.factors()
    return {} if factors is None else {"factors": factors.numpy()}


def groups_of(name: str, plan: Plan, schedule: NoiseSchedule) -> dict[int, TimestepSet]:
    """Groups of a plan, counted from 0. Raises UserError where they depend on measurements."""
    if plan.groups.needs_excess:
        raise UserError(f"plans.{name}.groups: they go by the base's excess loss, which settings do not fix")
    return {number: one.range for number, one in enumerate(planned_groups(plan.groups, schedule))}


def ranges_of(name: str, artifacts: Path, timesteps: int) -> dict[int, TimestepRange]:
    """Ranges of groups, counted from 0, or of slots, counted from 1. Raises UserError where their file is missing."""
    if name == "expert":
        return dict(enumerate(read_groups(artifacts / "groups.json").partition.covering(timesteps, "groups")))
    return dict(enumerate(read_slots(artifacts / "slots.json", timesteps).slots, start=1))


def draw_recipes(recipes: Sequence[str], params: Path, target: Path) -> list[str]:
    """Draw some recipes of a params file; return lines that describe them. Raises UserError."""
    settings = Recipes.read(params)
    weightings = [one for name in recipes for one in settings.curves(name, params.parent)]
    save(target, (13, 7), lambda figure: draw(figure, weightings, noise_schedule(settings.schedule)))
    head = f"{'recipe':24} {'p_0':>10} {'p_(T-1)':>10} {'mean t':>12} {'× weight':>12}"
    return [head, *(one.line for one in weightings), f"drawn: {target}"]
