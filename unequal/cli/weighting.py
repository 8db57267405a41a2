"""Effective weighting of timesteps by recipes, density × loss weight, with what trainings have learned."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

from unequal.cli.architecture import Sections
from unequal.diffusion.schedule import NoiseSchedule, noise_schedule
from unequal.errors import UserError
from unequal.models.folder import OBJECTIVE, load_record
from unequal.report.drawing import save
from unequal.report.effective_weighting import EffectiveWeighting, draw, effective_weighting
from unequal.settings.recipe import Recipe
from unequal.settings.schedule import Schedule
from unequal.training.objectives import objective_for
from unequal.training.timestep_files import read_groups, read_slots


class Recipes(Sections):
    """Recipes, and the schedule that they train on."""

    schedule: Schedule
    recipes: dict[str, Recipe]

    def curves(self, name: str, folder: Path) -> list[EffectiveWeighting]:
        """Effective weightings of a recipe: one, or one for each range that it trains inside.

        The params file's folder holds artifacts. Raises UserError where a recipe or a file is missing.
        """
        if name not in self.recipes:
            raise UserError(f"recipes: there is no '{name}'; allowed: {', '.join(self.recipes)}")
        recipe, schedule, artifacts = self.recipes[name], noise_schedule(self.schedule), folder / "artifacts"
        samplers = artifacts / "samplers"
        if recipe.sampler.density != "slot":
            learned = stored_weight(artifacts / "models" / name, recipe, schedule)
            return [effective_weighting(name, recipe, schedule, samplers, learned=learned)]
        if name == "expert":
            groups = read_groups(artifacts / "groups.json").partition.covering(schedule.timesteps, "groups")
            ranges = dict(enumerate(groups))
        else:
            ranges = dict(enumerate(read_slots(artifacts / "slots.json", schedule.timesteps).slots, start=1))
        return [
            effective_weighting(f"{name}_{number}", recipe, schedule, samplers, one) for number, one in ranges.items()
        ]


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


def draw_recipes(recipes: Sequence[str], params: Path, target: Path) -> list[str]:
    """Draw some recipes of a params file; return lines that describe them. Raises UserError."""
    settings = Recipes.read(params)
    weightings = [one for name in recipes for one in settings.curves(name, params.parent)]
    save(target, (13, 7), lambda figure: draw(figure, weightings, noise_schedule(settings.schedule)))
    head = f"{'recipe':24} {'p_0':>10} {'p_(T-1)':>10} {'mean t':>12} {'× weight':>12}"
    return [head, *(one.line for one in weightings), f"drawn: {target}"]
