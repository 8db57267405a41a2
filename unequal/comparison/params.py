"""The whole params file of a comparison."""

from typing import Self

from pydantic import Field, model_validator

from unequal.comparison.settings import Comparison, Pilot, choice, shortened, shortened_plan
from unequal.diffusion.schedule import noise_schedule
from unequal.errors import UserError
from unequal.experts.allocation import check_plan
from unequal.settings.core import FRESH, THREE_HEADS, Role
from unequal.settings.evaluation import Profile
from unequal.settings.groups import Plan
from unequal.settings.params import Scored
from unequal.settings.recipe import Recipe
from unequal.settings.values import Name
from unequal.timesteps.groups import foreseen_groups
from unequal.training.three_heads import PERIODS


class ComparisonParams(Scored):
    """Arms are trained in blocks and judged by the loss of held-out images and by FID."""

    profile: Profile
    comparison: Comparison
    pilot: Pilot
    plans: dict[Name, Plan] = Field(
        default={}, description="how variants continue the base, in groups of timesteps or not"
    )
    study: dict[Name, tuple[Name, ...] | tuple[tuple[int, ...], ...] | Name | int | float | bool] = Field(
        default={}, description="settings of stages in stages.yaml, which check them further"
    )

    @property
    def roles(self) -> dict[str, Role]:
        """Recipes of the base and of variants that are recipes; further recipes serve stages in stages.yaml."""
        arms = self.comparison.arms
        needed = dict.fromkeys((*arms.bases, *arms.fresh), FRESH) | dict.fromkeys(arms.heads, THREE_HEADS)
        others = {name: FRESH for name in self.recipes if name not in needed} if self.study else {}
        return super().roles | needed | others

    @property
    def samples_three_heads(self) -> bool:
        """Three heads are sampled, as all variants are."""
        return bool(self.comparison.arms.heads)

    @property
    def with_other_batches(self) -> set[str]:
        """Recipes of variants with a batch size of their own."""
        return {f"recipes.{name}" for name in self.comparison.batch_sizes} | (
            set(self.placed_recipes) if self.study else set()
        )

    @property
    def placed_recipes(self) -> dict[str, Recipe]:
        """All recipes, including those of plans and those that the pilot tries."""
        plans = {
            f"plans.{name}.recipe": shortened(plan.recipe, 1.0, self.pilot.tried(name))
            for name, plan in self.plans.items()
        }
        tries = {
            f"pilot.tries.{label}, of plans.{arm}": shortened(self.plans[arm].recipe, self.pilot.share, tried)
            for arm in self.pilot.arms.continued
            if arm in self.plans
            for label, tried in self.pilot.tries.items()
        }
        return super().placed_recipes | plans | tries

    @property
    def pruning_limits(self) -> dict[str, float]:
        """Lowest limits of the plans that prune."""
        schedule = noise_schedule(self.schedule)
        pruned = {name: plan for name, plan in self.plans.items() if plan.pruning is not None}
        return {
            f"plans.{name}.groups": min(group.limit_ratio for group in foreseen_groups(plan.groups, schedule))
            for name, plan in pruned.items()
        }

    @model_validator(mode="after")
    def the_pilot_fits(self) -> Self:
        """Check that the pilot has the comparison's variants and its own seeds, and that A/A uses its control's try."""
        self.pilot.check(self.comparison)
        arm, control = self.comparison.repeated.arms
        tries = [choice(self.pilot.chosen, one) for one in (arm, control)]
        if None not in tries and tries[0] != tries[1]:
            raise ValueError(f"pilot.chosen.{arm}: '{tries[0]}'; allowed: '{tries[1]}', as {control}")
        for name, one in self.pilot.tries.items():
            if one.warm_start is not None and not self.plans:
                raise ValueError(f"pilot.tries.{name}.warm_start: {one.warm_start}; no variant continues a base: null")
        if (speed := self.comparison.speed) and speed.baseline not in self.pilot.arms.all:
            raise ValueError(f"pilot.arms: must hold '{speed.baseline}', comparison.speed.baseline")
        return self

    @model_validator(mode="after")
    def blocks_begin_with_fresh_weights(self) -> Self:
        """Refuse a floor, and a pretrained network, whose one set of weights would make all blocks one."""
        if self.network.pretrained is not None:
            raise ValueError(f"network.pretrained: '{self.network.pretrained}'; blocks begin with fresh weights: null")
        if self.profile.floor != "none":
            raise ValueError(f"profile.floor: {self.profile.floor}; variants are compared without one: none")
        return self

    @model_validator(mode="after")
    def speed_can_be_measured(self) -> Self:
        """Check that variants are measured at equal points, two in the second half, with enough samples at each."""
        if (speed := self.comparison.speed) is None:
            return self
        if self.comparison.arms.continued:
            raise ValueError("comparison.speed: variants that are plans store no snapshots; allowed: null")
        baseline = self.recipes[speed.baseline]
        images, snapshots = baseline.images, baseline.snapshots
        if not snapshots or 2 * snapshots[-1] < images:
            raise ValueError(
                f"recipes.{speed.baseline}.snapshots: {list(snapshots)}; for comparison.speed one or more must lie in "
                f"the second half of {images} images"
            )
        for arm in self.comparison.arms.all:
            if (self.recipes[arm].images, self.recipes[arm].snapshots) != (images, snapshots):
                raise ValueError(
                    f"recipes.{arm}: images and snapshots must be those of '{speed.baseline}' for comparison.speed: "
                    f"{images} and {list(snapshots)}"
                )
        samples, features = self.evaluation.samples // 2, self.extractor.features
        if samples < features and not self.evaluation.allow_singular:
            raise ValueError(
                f"evaluation.samples: snapshots are scored by half of them, {samples}, which is fewer than "
                f"extractor.features {features}; raise it or set evaluation.allow_singular: true"
            )
        return self

    @model_validator(mode="after")
    def batches_fit(self) -> Self:
        """Check that variants with their own batch size see at least a batch, and three heads their parts."""
        arms, sizes = self.comparison.arms, self.comparison.batch_sizes
        for name, size in sizes.items():
            if name not in arms.from_fresh_weights:
                raise ValueError(f"comparison.batch_sizes: '{name}' is a plan; allowed: variants from fresh weights")
            if size > (images := self.recipes[name].images):
                raise ValueError(f"comparison.batch_sizes.{name}: {size}; recipes.{name} sees {images} images")
        for name in arms.heads:
            size = sizes.get(name, self.training.batch_size)
            if (images := self.recipes[name].images) < (needed := PERIODS * size):
                raise ValueError(
                    f"recipes.{name}.images: {images}; three heads are compared over {PERIODS} periods of their "
                    f"training: at least {needed} with batches of {size}"
                )
        return self

    @model_validator(mode="after")
    def plans_are_arms(self) -> Self:
        """Check that continued variants and plans match, and that each plan can run as far as is known."""
        continued = self.comparison.arms.continued
        for name in continued:
            if name not in self.plans:
                raise ValueError(f"comparison.arms.continued: '{name}' is no plan; there is: {', '.join(self.plans)}")
        for name, plan in self.plans.items():
            if name not in continued:
                raise ValueError(f"comparison.arms.continued: does not list plan '{name}'; add it there or delete it")
            if plan.groups.needs_excess:
                raise ValueError(f"plans.{name}.groups.kind: 'excess_loss' needs a floor, which no block measures")
            try:
                tried = shortened_plan(plan, 1.0, self.pilot.tried(name))
                check_plan(tried, noise_schedule(self.schedule), self.recipes["base"], self.training.batch_size)
            except UserError as error:
                raise ValueError(f"plans.{name}: {error}") from None
        return self
