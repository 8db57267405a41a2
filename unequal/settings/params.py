"""The whole of params.yaml: all sections at once, and the combinations that span sections.

Only the gate stage `check_params` and the tools import this module. A stage reads its own
sections alone, so that a new key elsewhere does not make its results stale.
"""

import re
from pathlib import Path
from typing import Any, Self

from pydantic import Field, NonNegativeInt, model_validator

from unequal.errors import UserError
from unequal.partition import flops_groups
from unequal.schedule import NoiseSchedule
from unequal.settings.data import Data
from unequal.settings.evaluation import Evaluation, Extractor, Sampling
from unequal.settings.groups import Groups
from unequal.settings.network import Network
from unequal.settings.profile import Profile
from unequal.settings.pruning import Pruning
from unequal.settings.recipe import Recipe
from unequal.settings.runtime import Runtime
from unequal.settings.schedule import Schedule
from unequal.settings.slots import Slots
from unequal.settings.strict import PARAMS, Strict, read_yaml, validate
from unequal.settings.training import Training

#: Recipes that stages of their own run; every further one stands in `further_recipes`.
STAGE_RECIPES = ("base", "slot", "mixed", "expert")
EXPERTS = ("experts_unpruned", "experts_pruned")


class Params(Strict):
    """params.yaml."""

    seed: NonNegativeInt
    runtime: Runtime
    data: Data
    schedule: Schedule
    network: Network
    training: Training
    recipes: dict[str, Recipe]
    further_recipes: tuple[str, ...] = Field(
        min_length=1, description="recipes trained on from the base, each an instance"
    )
    profile: Profile
    profiled_models: tuple[str, ...] = Field(description="models whose losses are profiled, each an instance")
    slots: Slots
    groups: Groups
    pruning: Pruning
    extractor: Extractor
    sampling: Sampling
    evaluation: Evaluation
    variants: tuple[str, ...] = Field(description="models and sets of experts that are scored, each an instance")

    @model_validator(mode="after")
    def recipes_have_names_of_their_own(self) -> Self:
        """A further recipe's name becomes a model's and a folder's."""
        for name in self.further_recipes:
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
                raise ValueError(f"further_recipes: '{name}' is no name; allowed: small letters, digits and _")
            if name in STAGE_RECIPES or name.startswith(("slot_", "experts_", "group_")):
                raise ValueError(f"further_recipes: '{name}' is the name of another stage's model")
        if len(set(self.further_recipes)) < len(self.further_recipes):
            raise ValueError(f"further_recipes: {list(self.further_recipes)} names a recipe twice")
        return self

    @model_validator(mode="after")
    def recipes_are_there(self) -> Self:
        """Stages find their recipes, and recipes their stages."""
        expected = (*STAGE_RECIPES, *self.further_recipes)
        for name in expected:
            if name not in self.recipes:
                raise ValueError(f"recipes: '{name}' is missing; needed: {', '.join(expected)}")
        for name in self.recipes:
            if name not in expected:
                raise ValueError(f"further_recipes: does not list recipe '{name}'; add it there or delete it")
        return self

    @model_validator(mode="after")
    def timesteps_can_be_grouped(self) -> Self:
        """Found out here, and not after the base has been trained."""
        try:
            schedule = NoiseSchedule.named(self.schedule.name, self.schedule.timesteps)
            flops_groups(schedule, len(self.groups.ids), self.groups.min_ratio)
        except UserError as error:
            raise ValueError(f"groups: {error}") from None
        return self

    @model_validator(mode="after")
    def recipes_fit_their_stages(self) -> Self:
        """A range goes with the stages that know one; heads with the model that has them."""
        for name, recipe in self.recipes.items():
            ranged = name in ("slot", "expert")
            if ranged != (recipe.sampler.kind == "slot"):
                allowed = "only 'slot'" if ranged else "any but 'slot', which recipes slot and expert use"
                raise ValueError(f"recipes.{name}.sampler.kind: '{recipe.sampler.kind}'; allowed: {allowed}")
            if name in ("base", "mixed") and recipe.sampler.kind in ("loss", "stratified"):
                raise ValueError(
                    f"recipes.{name}.sampler.kind: '{recipe.sampler.kind}' needs the base's profile; "
                    "recipes that start from nothing have none"
                )
            if (name == "mixed") != (recipe.prediction == "mixed"):
                raise ValueError(f"recipes.{name}.prediction: '{recipe.prediction}'; 'mixed' is recipe mixed's own")
            if name != "mixed" and recipe.prediction != self.recipes["base"].prediction:
                raise ValueError(
                    f"recipes.{name}.prediction: '{recipe.prediction}'; it trains the base on, "
                    f"whose prediction is '{self.recipes['base'].prediction}'"
                )
        return self

    @model_validator(mode="after")
    def models_exist(self) -> Self:
        """What is profiled and scored is also trained."""
        models = ("base", "mixed", *self.further_recipes, *(f"slot_{slot}" for slot in self.slots.finetune))
        for field, names, allowed in (
            ("profiled_models", self.profiled_models, models),
            ("variants", self.variants, (*models, *EXPERTS)),
        ):
            for name in names:
                if name not in allowed:
                    raise ValueError(f"{field}: '{name}' is not trained; allowed: {', '.join(allowed)}")
            if "base" not in names or len(set(names)) < len(names):
                raise ValueError(f"{field}: {list(names)} must hold base, and no name twice")
        return self

    @model_validator(mode="after")
    def sizes_fit(self) -> Self:
        """Numbers of one section bound those of another."""
        timesteps = self.schedule.timesteps
        for field, count in (("slots.count", self.slots.count), ("groups.ids", len(self.groups.ids))):
            if count > timesteps:
                raise ValueError(f"{field}: {count} ranges of {timesteps} timesteps; at most schedule.timesteps")
        self.network.attends(self.data.image_size)
        if self.slots.loss == "excess" and self.profile.floor == "none":
            raise ValueError(
                "slots.loss: 'excess' needs a floor; allowed for profile.floor: all, or a number of images"
            )
        steps = self.sampling.steps
        if isinstance(steps, int) and steps > timesteps:
            raise ValueError(f"sampling.steps: {steps} steps of {timesteps} timesteps; at most schedule.timesteps")
        if isinstance(steps, tuple) and steps[0] >= timesteps:
            raise ValueError(f"sampling.steps: {steps[0]} reaches beyond the last timestep {timesteps - 1}")
        if self.evaluation.samples < self.extractor.features and not self.evaluation.allow_singular:
            raise ValueError(
                f"evaluation.samples: {self.evaluation.samples} is fewer than extractor.features "
                f"{self.extractor.features}, which makes the covariance singular; "
                "raise it or set evaluation.allow_singular: true"
            )
        return self


def read_params(path: Path = PARAMS) -> Params:
    """Read and check a whole params file. Raises UserError."""
    return validate(Params, read_yaml(path), path)


def json_schema() -> dict[str, Any]:
    """JSON schema of params.yaml, by which editors complete and check it."""
    return Params.model_json_schema() | {"title": "params.yaml of unequal"}
