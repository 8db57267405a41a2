"""Sections of every params.yaml, the pipeline's or an experiment's, roles of recipes, and what must fit together."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import model_validator

from unequal.diffusion.schedule import NoiseSchedule, noise_schedule
from unequal.errors import UserError
from unequal.settings.data import Data
from unequal.settings.network import AnyNetwork
from unequal.settings.recipe import Recipe, WarmStart
from unequal.settings.schedule import Schedule
from unequal.settings.strict import PARAMS, Strict, read_whole
from unequal.settings.training import Runtime, Training
from unequal.settings.values import Name, Seed


class Role(NamedTuple):
    """Purpose of a recipe; every params file states it for each of its recipes.

    Attributes:
        start: its training starts from fresh weights, or trains the base further.
        ranged: it trains on a range of timesteps, which the stage gives.
        mixed: its network has three heads.
        pruned: it may train what pruning has left of the base, and that has no state of a training.
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


class Core(Strict):
    """Sections that no training can do without.

    `checks` yields what does not fit together and would fail after hours otherwise; subclasses add theirs.
    """

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
    def profiled_images(self) -> int:
        """Losses that the base's profile has of each timestep; 0: there is no profile."""
        return 0

    @property
    def seen(self) -> tuple[int, int]:
        """Channels and width of what networks see."""
        return self.data.channels, self.data.image_size

    @property
    def tables(self) -> NoiseSchedule | None:
        """The noise schedule; None where its timesteps are too few for it."""
        try:
            return noise_schedule(self.schedule)
        except UserError:
            return None

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Keys that say how small pruned networks are, each with the lowest limit, as a share of the base's FLOPs."""
        return {}

    @property
    def placed_recipes(self) -> dict[str, Recipe]:
        """All recipes, by the keys at which they stand."""
        return {f"recipes.{name}": recipe for name, recipe in self.recipes.items()}

    @model_validator(mode="after")
    def sections_fit(self) -> Self:
        """Sections fit each other: those of a sound file are checked together, and all problems are listed."""
        if lines := list(dict.fromkeys(self.roles_are_filled() or self.checks())):
            raise ValueError("\n".join(lines))
        return self

    def roles_are_filled(self) -> list[str]:
        """List recipes that no stage trains by, and those that are missing."""
        missing = [f"recipes: '{name}' is missing; needed: {', '.join(self.roles)}" for name in self.roles]
        unused = [
            f"recipes: no stage trains by '{name}'; delete it, or name it where recipes are listed; "
            f"used: {', '.join(self.roles)}"
            for name in self.recipes
            if name not in self.roles
        ]
        return [line for line, name in zip(missing, self.roles, strict=True) if name not in self.recipes] + unused

    def checks(self) -> Iterator[str]:
        """Yield a line for each thing that does not fit."""
        for name, role in self.roles.items():
            yield from self.check_role(name, role)
        for place, recipe in sorted(self.placed_recipes.items()):
            yield from self.check_recipe(place, recipe)
        yield from refusal(lambda: self.network.check_size(self.seen[1]))
        predictions = {place: recipe.prediction for place, recipe in self.placed_recipes.items()}
        yield from refusal(lambda: self.schedule.check(predictions, self.network.variance == "learned"))
        if (schedule := self.tables) is None:
            yield from refusal(lambda: noise_schedule(self.schedule), "schedule.timesteps: ")
            return
        for place, recipe in self.placed_recipes.items():
            yield from refusal(partial(recipe.sampler.check_schedule, schedule), f"{place}.")

    def check_role(self, name: str, role: Role) -> Iterator[str]:
        """Yield where a recipe's sampler, prediction or start does not fit its role."""
        recipe, place = self.recipes[name], f"recipes.{name}"
        if role.ranged != (recipe.sampler.density == "slot"):
            allowed = "only 'slot'" if role.ranged else "any but 'slot', which draws from the range that a stage gives"
            yield f"{place}.sampler.density: '{recipe.sampler.density}'; allowed: {allowed}"
        if recipe.pruned_images is not None and not role.pruned:
            yield f"{place}.pruned_images: it trains no pruned network; allowed: null"
        if role.start == "fresh" and recipe.sampler.needs:
            yield (
                f"{place}.sampler.density: '{recipe.sampler.density}' needs the base's profile; "
                "recipes that start from nothing have none"
            )
        if role.start == "fresh" and "warm_start" in recipe.model_fields_set:
            yield f"{place}.warm_start: has no meaning for a recipe that starts from fresh weights"
        if role.start == "base" and "base" in self.recipes and recipe.prediction != self.recipes["base"].prediction:
            yield (
                f"{place}.prediction: '{recipe.prediction}'; it trains the base on, "
                f"whose prediction is '{self.recipes['base'].prediction}'"
            )
        elif (recipe.prediction == "mixed") != role.mixed:
            mixed = ", ".join(other for other in self.roles if self.roles[other].mixed) or "none of these recipes"
            yield f"{place}.prediction: '{recipe.prediction}'; 'mixed' is for {mixed} alone"
        if role.pruned and recipe.warm_start.needs_state:
            yield (
                f"{place}.warm_start: {recipe.warm_start}; it trains pruned networks too, which have only their "
                f"weights; allowed: {WarmStart()}"
            )

    def check_recipe(self, place: str, recipe: Recipe) -> Iterator[str]:
        """Yield where a recipe's budget, start or sampler does not fit the other sections."""
        batch, warm_up, start = self.training.batch_size, recipe.optimizer.warmup_images, recipe.warm_start
        if batch > recipe.images:
            yield f"training.batch_size: {batch}; {place} sees {recipe.images} images in all"
        if warm_up > recipe.images:
            yield f"{place}.optimizer.warmup_images: {warm_up} is longer than the training of {recipe.images} images"
        base = self.recipes.get("base")
        if base is not None and start.needs_state:
            if self.network.pretrained is not None:
                yield f"{place}.warm_start: {start}; network.pretrained has weights alone: {WarmStart()}"
            elif not base.keep_state:
                yield f"{place}.warm_start: {start} needs recipes.base.keep_state: true"
            elif start.moments == "carried" and recipe.optimizer.name != base.optimizer.name:
                yield (
                    f"{place}.warm_start.moments: 'carried' from '{base.optimizer.name}' of the base to "
                    f"'{recipe.optimizer.name}'; allowed between unlike optimizers: fresh"
                )
        learned_variance = self.network.variance == "learned"
        yield from refusal(lambda: recipe.sampler.check_profile(self.profiled_images, learned_variance), f"{place}.")


def refusal(make: Callable[[], Any], place: str = "") -> Iterator[str]:
    """Yield why something cannot be made, behind the key where it stands."""
    try:
        make()
    except (UserError, ValueError) as error:
        yield f"{place}{error}"
