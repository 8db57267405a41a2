"""Sections of every params.yaml, the pipeline's or a study's, and the roles of its recipes."""

from pathlib import Path
from typing import Literal, NamedTuple, Self

from pydantic import model_validator

from unequal.diffusion.schedule import noise_schedule
from unequal.errors import UserError
from unequal.settings.data import Data
from unequal.settings.network import AnyNetwork
from unequal.settings.problems import read_whole
from unequal.settings.recipe import Recipe, WarmStart
from unequal.settings.schedule import Schedule
from unequal.settings.strict import PARAMS, Strict
from unequal.settings.training import Runtime, Training
from unequal.settings.values import Name, Seed


class Role(NamedTuple):
    """Purpose of a recipe; every params file states it for each of its recipes.

    Attributes:
        start: its training starts from fresh weights, or trains the base on.
        ranged: it trains on a range of timesteps, which the stage gives.
        mixed: its network has three heads.
        pruned: it may train on what pruning has left of the base, and that has no state of a training.
    """

    start: Literal["fresh", "base"]
    ranged: bool = False
    mixed: bool = False
    pruned: bool = False


FRESH = Role("fresh")
THREE_HEADS = Role("fresh", mixed=True)
CONTINUED = Role("base")
INSIDE_A_RANGE = Role("base", ranged=True)
PRUNED = Role("base", ranged=True, pruned=True)


def check_recipes(recipes: dict[str, Recipe], roles: dict[str, Role]) -> None:
    """Raise ValueError where a role's recipe is missing, a recipe has no role, or one does not fit its role."""
    for name in roles:
        if name not in recipes:
            raise ValueError(f"recipes: '{name}' is missing; needed: {', '.join(roles)}")
    for name in recipes:
        if name not in roles:
            raise ValueError(
                f"recipes: no stage trains by '{name}'; delete it, or name it where recipes are listed; "
                f"used: {', '.join(roles)}"
            )
    for name, role in roles.items():
        check_role(name, role, recipes)
        if (recipes[name].prediction == "mixed") != role.mixed:
            mixed = ", ".join(other for other in roles if roles[other].mixed) or "none of these recipes"
            raise ValueError(f"recipes.{name}.prediction: '{recipes[name].prediction}'; 'mixed' is for {mixed} alone")


def check_role(name: str, role: Role, recipes: dict[str, Recipe]) -> None:
    """Raise ValueError where a recipe's sampler, prediction or start does not fit its role."""
    recipe = recipes[name]
    if role.ranged != (recipe.sampler.density == "slot"):
        allowed = "only 'slot'" if role.ranged else "any but 'slot', which draws from the range that a stage gives"
        raise ValueError(f"recipes.{name}.sampler.density: '{recipe.sampler.density}'; allowed: {allowed}")
    if recipe.pruned_images is not None and not role.pruned:
        raise ValueError(f"recipes.{name}.pruned_images: it trains no pruned network; allowed: null")
    if role.start == "fresh" and recipe.sampler.needs:
        raise ValueError(
            f"recipes.{name}.sampler.density: '{recipe.sampler.density}' needs the base's profile; "
            "recipes that start from nothing have none"
        )
    if role.start == "base" and "base" in recipes and recipe.prediction != recipes["base"].prediction:
        raise ValueError(
            f"recipes.{name}.prediction: '{recipe.prediction}'; it trains the base on, "
            f"whose prediction is '{recipes['base'].prediction}'"
        )
    if role.start == "fresh" and "warm_start" in recipe.model_fields_set:
        raise ValueError(f"recipes.{name}.warm_start: has no meaning for a recipe that starts from fresh weights")
    if role.pruned and recipe.warm_start.needs_state:
        raise ValueError(
            f"recipes.{name}.warm_start: {recipe.warm_start}; it trains pruned networks too, which have only their "
            f"weights; allowed: {WarmStart()}"
        )


class Core(Strict):
    """Sections that no training can do without."""

    seed: Seed
    runtime: Runtime
    data: Data
    schedule: Schedule
    network: AnyNetwork
    training: Training
    recipes: dict[Name, Recipe]

    @classmethod
    def read(cls, path: Path = PARAMS) -> Self:
        """Read and check a whole params file. Raises UserErrors, a line for each problem."""
        return read_whole(cls, path)

    @property
    def roles(self) -> dict[str, Role]:
        """Recipe → what it is for; each class of params files adds those that its stages train by."""
        return {}

    @property
    def trained_models(self) -> tuple[str, ...]:
        """Models that stages train and further ones may name."""
        return ("base",)

    @property
    def expert_sets(self) -> tuple[str, ...]:
        """Sets of experts that stages make; they are profiled and sampled as one model is."""
        return ()

    @property
    def profiled_images(self) -> int:
        """Losses that the base's profile has of each timestep; 0: there is no profile."""
        return 0

    @property
    def seen(self) -> tuple[int, int]:
        """Channels and width of what networks see."""
        return self.data.channels, self.data.image_size

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Keys that say how small pruned networks are, each with the lowest limit, as a share of the base's FLOPs."""
        return {}

    @model_validator(mode="after")
    def recipes_fit_their_roles(self) -> Self:
        """Stages find their recipes, recipes their stages, and the two fit."""
        check_recipes(self.recipes, self.roles)
        return self

    @property
    def placed_recipes(self) -> dict[str, Recipe]:
        """All recipes, by the keys at which they stand."""
        return {f"recipes.{name}": recipe for name, recipe in self.recipes.items()}

    @property
    def with_other_batches(self) -> set[str]:
        """Keys of recipes whose batches are not of `training.batch_size`."""
        return set()

    @model_validator(mode="after")
    def budgets_hold_a_batch(self) -> Self:
        """A training of less than one step would see more images than it is to see."""
        for place in sorted(set(self.placed_recipes) - self.with_other_batches):
            recipe, batch = self.placed_recipes[place], self.training.batch_size
            if batch > recipe.images:
                raise ValueError(f"training.batch_size: {batch}; {place} sees {recipe.images} images in all")
        return self

    @model_validator(mode="after")
    def warm_ups_end(self) -> Self:
        """Warm-ups end within the training, or the learning rate would never be reached."""
        for place, recipe in self.placed_recipes.items():
            if (warm_up := recipe.optimizer.warmup_images) > recipe.images:
                raise ValueError(
                    f"{place}.optimizer.warmup_images: {warm_up} is longer than the training of {recipe.images} images"
                )
        return self

    @model_validator(mode="after")
    def states_are_kept(self) -> Self:
        """Recipes that continue the base's last weights or moments find them saved."""
        base = self.recipes.get("base")
        for place, recipe in self.placed_recipes.items():
            asked = recipe.warm_start
            if base is None or not asked.needs_state:
                continue
            if self.network.pretrained is not None:
                raise ValueError(f"{place}.warm_start: {asked}; network.pretrained has weights alone: {WarmStart()}")
            if not base.keep_state:
                raise ValueError(f"{place}.warm_start: {asked} needs recipes.base.keep_state: true")
            if asked.moments == "carried" and recipe.optimizer.name != base.optimizer.name:
                raise ValueError(
                    f"{place}.warm_start.moments: 'carried' from '{base.optimizer.name}' of the base to "
                    f"'{recipe.optimizer.name}'; allowed between unlike optimizers: fresh"
                )
        return self

    @model_validator(mode="after")
    def network_fits_the_images(self) -> Self:
        """The network halves what it sees, and attends where it says."""
        self.network.check_size(self.seen[1])
        return self

    @model_validator(mode="after")
    def predictions_fit_the_schedule(self) -> Self:
        """Predictions without a meaning are refused before a training."""
        predictions = {place: recipe.prediction for place, recipe in self.placed_recipes.items()}
        self.schedule.check(predictions, self.network.variance == "learned")
        return self

    @model_validator(mode="after")
    def recipes_fit_the_schedule(self) -> Self:
        """Recipes that a schedule rules out are refused before all stages, as far as that is known."""
        for place, recipe in self.placed_recipes.items():
            try:
                recipe.check_schedule(noise_schedule(self.schedule))
            except UserError as error:
                raise ValueError(f"{place}.{error}") from None
        return self

    @model_validator(mode="after")
    def samplers_learn_enough_of_the_base(self) -> Self:
        """Samplers that need more than the profile holds are refused before the base is profiled."""
        for name, recipe in self.recipes.items():
            try:
                recipe.sampler.check_profile(self.profiled_images, self.network.variance == "learned")
            except ValueError as error:
                raise ValueError(f"recipes.{name}.{error}") from None
        return self


def check_models(field: str, names: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    """Raise ValueError where a list of models, the base among them, names one that is not trained, or one twice."""
    for name in names:
        if name not in allowed:
            raise ValueError(f"{field}: '{name}' is not trained; allowed: {', '.join(allowed)}")
    if "base" not in names or len(set(names)) < len(names):
        raise ValueError(f"{field}: {list(names)} must hold base, and no name twice")
