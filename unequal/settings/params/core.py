"""What every params.yaml holds, the pipeline's or a study's."""

from pathlib import Path
from typing import Self

from pydantic import model_validator

from unequal.errors import UserError
from unequal.settings.data import Data
from unequal.settings.names import Name
from unequal.settings.network import AnyNetwork
from unequal.settings.numbers import Seed
from unequal.settings.params.roles import Role, check_recipes
from unequal.settings.recipe import Recipe, WarmStart
from unequal.settings.runtime import Runtime
from unequal.settings.schedule import Schedule
from unequal.settings.strict import PARAMS, Strict, read_yaml, validate
from unequal.settings.training import Training


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
        """Read and check a whole params file. Raises UserError."""
        return validate(cls, read_yaml(path), path)

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
        """Otherwise the learning rate that a recipe tells would never be reached."""
        for place, recipe in self.placed_recipes.items():
            if (warm_up := recipe.optimizer.warmup_images) > recipe.images:
                raise ValueError(
                    f"{place}.optimizer.warmup_images: {warm_up} is longer than the training of {recipe.images} images"
                )
        return self

    @model_validator(mode="after")
    def states_are_kept(self) -> Self:
        """What goes on from the base's last weights or moments will find them."""
        base = self.recipes.get("base")
        for place, recipe in self.placed_recipes.items():
            asked = recipe.continuing
            if base is None or not asked.needs_state:
                continue
            if self.network.pretrained is not None:
                raise ValueError(f"{place}.continuing: {asked}; network.pretrained has weights alone: {WarmStart()}")
            if not base.keep_state:
                raise ValueError(f"{place}.continuing: {asked} needs recipes.base.keep_state: true")
            if asked.moments == "carried" and recipe.optimizer.name != base.optimizer.name:
                raise ValueError(
                    f"{place}.continuing.moments: 'carried' from '{base.optimizer.name}' of the base to "
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
        """Found out here, and not by a training."""
        predictions = {place: recipe.prediction for place, recipe in self.placed_recipes.items()}
        self.schedule.check(predictions, self.network.variance == "learned")
        return self

    @model_validator(mode="after")
    def recipes_fit_the_schedule(self) -> Self:
        """Found out here as far as it can be, and not by a stage."""
        for place, recipe in self.placed_recipes.items():
            try:
                recipe.check_schedule(self.schedule.tables())
            except UserError as error:
                raise ValueError(f"{place}: {error}") from None
        return self

    @model_validator(mode="after")
    def samplers_learn_enough_of_the_base(self) -> Self:
        """Found out here, and not after the base has been profiled."""
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
