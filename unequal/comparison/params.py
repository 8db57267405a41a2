"""Params files of studies that compare arms in blocks."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from unequal.comparison.settings import (
    OTHERS,
    BlockProfile,
    Comparison,
    Effects,
    Pilot,
    Subject,
    choice,
    shortened,
    shortened_plan,
)
from unequal.errors import UserError
from unequal.settings.groups import Plan
from unequal.settings.params.core import FRESH, Role
from unequal.settings.params.sections import Scored
from unequal.settings.recipe import Recipe
from unequal.settings.values import Name


class Blocked(Scored):
    """Arms are trained in blocks and judged by the loss of held-out images and by FID."""

    profile: BlockProfile
    subject: Subject
    blocks: Comparison
    pilot: Pilot
    effects: Effects

    @model_validator(mode="after")
    def the_pilot_fits_the_study(self) -> Self:
        """It is of the study's arms, and on other seeds."""
        self.pilot.check(self.blocks)
        return self

    @model_validator(mode="after")
    def a_control_once_more_is_trained_as_it_is(self) -> Self:
        """What is found between the two would else be of their tries."""
        arm, control = self.blocks.repeated.arms
        tries = [choice(self.pilot.chosen, one) for one in (arm, control)]
        if None not in tries and tries[0] != tries[1]:
            raise ValueError(f"pilot.chosen.{arm}: '{tries[0]}'; allowed: '{tries[1]}', as {control}")
        return self

    @model_validator(mode="after")
    def effects_are_of_endpoints(self) -> Self:
        """What is not judged has none."""
        for name in self.effects:
            if name not in self.blocks.judged:
                raise ValueError(f"effects.{name}: no endpoint of blocks; there is: {', '.join(self.blocks.judged)}")
        return self

    @model_validator(mode="after")
    def blocks_begin_with_fresh_weights(self) -> Self:
        """A trained network has one set of weights, which would make all blocks one."""
        if self.network.pretrained is not None:
            raise ValueError(f"network.pretrained: '{self.network.pretrained}'; blocks begin with fresh weights: null")
        return self

    @model_validator(mode="after")
    def no_floor_is_asked_for(self) -> Self:
        """Arms are held against each other."""
        if self.profile.floor != "none":
            raise ValueError(f"profile.floor: {self.profile.floor}; arms are compared without one: none")
        return self


class Recipes(Blocked):
    """Every arm is a recipe, by which fresh weights are trained that all arms of a block share."""

    @property
    def roles(self) -> dict[str, Role]:
        """A recipe is an arm."""
        return super().roles | dict.fromkeys(self.blocks.arms, FRESH)

    @model_validator(mode="after")
    def speed_can_be_told(self) -> Self:
        """Arms are measured at the same points, two of them in the second half, and by samples enough at each."""
        if (speed := self.blocks.speed) is None:
            return self
        baseline = self.recipes[speed.baseline]
        images, snapshots = baseline.images, baseline.snapshots
        if not snapshots or 2 * snapshots[-1] < images:
            raise ValueError(
                f"recipes.{speed.baseline}.snapshots: {list(snapshots)}; for blocks.speed one or more must lie in the "
                f"second half of {images} images"
            )
        for arm in self.blocks.arms:
            if (self.recipes[arm].images, self.recipes[arm].snapshots) != (images, snapshots):
                raise ValueError(
                    f"recipes.{arm}: images and snapshots must be those of '{speed.baseline}' for blocks.speed: "
                    f"{images} and {list(snapshots)}"
                )
        samples, features = self.evaluation.samples // 2, self.extractor.features
        if samples < features and not self.evaluation.allow_singular:
            raise ValueError(
                f"evaluation.samples: snapshots are scored by half of them, {samples}, which is fewer than "
                f"extractor.features {features}; raise it or set evaluation.allow_singular: true"
            )
        if speed.baseline not in self.pilot.arms:
            raise ValueError(f"pilot.arms: must hold '{speed.baseline}', blocks.speed.baseline")
        return self

    @model_validator(mode="after")
    def every_arm_has_its_try(self) -> Self:
        """A training depends on the choice for its own arm, and on that of no other."""
        for arm in self.blocks.arms:
            if choice(self.pilot.chosen, arm) is None:
                tries = ", ".join(self.pilot.tries)
                raise ValueError(
                    f"pilot.chosen.{arm}: missing, as is '{OTHERS}'; name the try that it is trained by: {tries}"
                )
        return self

    @model_validator(mode="after")
    def tries_begin_with_fresh_weights(self) -> Self:
        """There is nothing that they could go on from."""
        for name, one in self.pilot.tries.items():
            if one.warm_start is not None:
                raise ValueError(
                    f"pilot.tries.{name}.warm_start: {one.warm_start}; arms begin with fresh weights; allowed: null"
                )
        return self


class Plans(Blocked):
    """Every arm is a plan, carried out on the base of its block."""

    plans: Annotated[dict[Name, Plan], Field(description="ways of training the base on, in groups of timesteps or not")]

    @property
    def roles(self) -> dict[str, Role]:
        """The base; plans have recipes of their own."""
        return super().roles | {"base": FRESH}

    @property
    def placed_recipes(self) -> dict[str, Recipe]:
        """Those of the plans too, and what the pilot tries of them."""
        plans = {
            f"plans.{name}.recipe": shortened(plan.recipe, 1.0, self.pilot.tried(name))
            for name, plan in self.plans.items()
        }
        tries = {
            f"pilot.tries.{label}, of plans.{arm}": shortened(self.plans[arm].recipe, self.pilot.share, tried)
            for arm in self.pilot.arms
            if arm in self.plans
            for label, tried in self.pilot.tries.items()
        }
        return super().placed_recipes | plans | tries

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Those of the plans that prune."""
        schedule = self.schedule.tables()
        pruned = {name: plan for name, plan in self.plans.items() if plan.pruning is not None}
        return {f"plans.{name}.groups": plan.least_limit(schedule) for name, plan in pruned.items()}

    @model_validator(mode="after")
    def arms_are_plans(self) -> Self:
        """Every arm has a plan, every plan is an arm, and each can be carried out as far as is known beforehand."""
        if self.blocks.speed is not None:
            raise ValueError("blocks.speed: arms that are plans keep no snapshots; allowed: null")
        for name in self.blocks.arms:
            if name not in self.plans:
                raise ValueError(f"blocks.arms: '{name}' is no plan; there is: {', '.join(self.plans)}")
        for name, plan in self.plans.items():
            if name not in self.blocks.arms:
                raise ValueError(f"blocks.arms: does not list plan '{name}'; add it there or delete it")
            if plan.groups.needs_excess:
                raise ValueError(f"plans.{name}.groups.kind: 'excess_loss' needs a floor, which no block measures")
            try:
                shortened_plan(plan, 1.0, self.pilot.tried(name)).check(
                    self.schedule.tables(), self.recipes["base"], self.training.batch_size
                )
            except UserError as error:
                raise ValueError(f"plans.{name}: {error}") from None
        return self
