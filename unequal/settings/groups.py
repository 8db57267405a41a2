"""`groups` and `plans`: timesteps in groups, with an expert for each, trained and pruned."""

from abc import abstractmethod
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.pruning import Pruning
from unequal.settings.recipe import RangeRecipe, Recipe
from unequal.settings.strict import Strict
from unequal.settings.values import DrawCount
from unequal.timesteps.boundary import Boundary
from unequal.timesteps.groups import (
    BY_EXCESS,
    Grouping,
    TimestepGroup,
    interleaved_groups,
    limited,
    timestep_groups,
)
from unequal.timesteps.partition import TimestepRange


class PlannedGroups(Strict):
    """The groups of a plan, which may go by measured losses."""

    kind: str

    @property
    def needs_excess(self) -> bool:
        """True where the base's excess over the optimal-denoiser loss has to be known."""
        return self.kind in BY_EXCESS

    @abstractmethod
    def made(self, schedule: NoiseSchedule, excess: np.ndarray | None = None) -> list[TimestepGroup]:
        """The groups. Raises UserError where they cannot be made."""

    def foreseen(self, schedule: NoiseSchedule) -> list[TimestepGroup]:
        """The groups; where they go by measured losses, as if those were equal everywhere."""
        return self.made(schedule, np.ones(schedule.timesteps) if self.needs_excess else None)

    def least_limit(self, schedule: NoiseSchedule) -> float:
        """The lowest limit of all, as a share of the base's FLOPs; measured losses do not change it."""
        return min(group.limit_ratio for group in self.foreseen(schedule))


class OneGroup(PlannedGroups):
    """All timesteps as one group."""

    kind: Literal["whole"]
    ratio: float = Field(gt=0, le=1, description="the model's largest FLOPs as a share of the base's")

    def made(self, schedule: NoiseSchedule, excess: np.ndarray | None = None) -> list[TimestepGroup]:
        return [TimestepGroup(TimestepRange(0, schedule.timesteps - 1), self.ratio)]


class InterleavedGroups(PlannedGroups):
    """Timesteps t ≡ i (mod N): as many models as other groupings have, none of them for timesteps of its own kind."""

    kind: Literal["interleaved"]
    count: int = Field(ge=2, description="N")
    ratio: float = Field(default=1.0, gt=0, le=1, description="every model's largest FLOPs as a share of the base's")

    def made(self, schedule: NoiseSchedule, excess: np.ndarray | None = None) -> list[TimestepGroup]:
        return interleaved_groups(schedule.timesteps, self.count, self.ratio)


class TwoGroups(PlannedGroups):
    """Two groups with a boundary between them, in λ, which is the same for every schedule and shift."""

    kind: Literal["boundary"]
    log_snr: float = Field(description="λ = ln(α²/σ²): timesteps with so much noise or more are the second group's")
    ratio: float = Field(default=1.0, gt=0, le=1, description="both models' largest FLOPs as a share of the base's")

    def made(self, schedule: NoiseSchedule, excess: np.ndarray | None = None) -> list[TimestepGroup]:
        return limited(Boundary(self.log_snr).ranges(schedule), [self.ratio, self.ratio])


class SeveralGroups(PlannedGroups):
    """Several groups, each with a limit of FLOPs, as in the section `groups`."""

    kind: Grouping
    count: PositiveInt = Field(description="N")
    min_ratio: float = Field(gt=0, le=1, description="k: the smallest model's FLOPs as a share of the base's")

    def made(self, schedule: NoiseSchedule, excess: np.ndarray | None = None) -> list[TimestepGroup]:
        return timestep_groups(self.kind, schedule, self.count, self.min_ratio, excess)


class Groups(Strict):
    """The groups from the data end (0) to the noise end."""

    ids: tuple[NonNegativeInt, ...] = Field(min_length=1, description="0, 1, … N−1; N is the number of groups")
    kind: Grouping = Field(
        description="by SNR with rising limits of FLOPs or one constant limit; of equal size with limits that rise or "
        "fall towards the noise; of equal excess loss, the highest limit where the mean excess is highest; or clusters "
        "of the least spread in t or in log-SNR, with one constant limit"
    )
    min_ratio: float = Field(gt=0, le=1, description="k: the smallest model's FLOPs as a share of the base's")

    @property
    def needs_excess(self) -> bool:
        """True where the base's excess over the optimal-denoiser loss has to be known."""
        return self.planned.needs_excess

    @property
    def planned(self) -> SeveralGroups:
        """These groups as those of a plan."""
        return SeveralGroups(kind=self.kind, count=len(self.ids), min_ratio=self.min_ratio)

    @model_validator(mode="after")
    def ids_count_up(self) -> Self:
        """The list exists so that pipelines can fan out over it; it says nothing but N."""
        if self.ids != tuple(range(len(self.ids))):
            raise ValueError(f"ids: {list(self.ids)} must count 0, 1, 2 … without a gap")
        return self


class Equal(Strict):
    """Equally many images for each group, as paper 3's budgets amount to."""

    kind: Literal["equal"]


class ByTimesteps(Strict):
    """In proportion to the timesteps of each group, as a joint training would draw them."""

    kind: Literal["timesteps"]


class ByGain(Strict):
    """Equal at first, then in rounds: each to the group whose held-out error has last fallen fastest by the image."""

    kind: Literal["gain"]
    first: float = Field(gt=0, lt=1, description="share of the budget that is given out equally")
    rounds: int = Field(gt=0, le=1000, description="in which the rest is given out, as many images each")


Allocation = Annotated[Equal | ByTimesteps | ByGain, Field(discriminator="kind")]


class Plan(Strict):
    """A way to train models for groups of timesteps."""

    groups: Annotated[OneGroup | InterleavedGroups | TwoGroups | SeveralGroups, Field(discriminator="kind")]
    pruning: Pruning | None = Field(description="to each group's limit; null: all have the base's architecture")
    start: Literal["base", "scratch"] = Field(description="with the base's weights, or with fresh ones")
    from_images: PositiveInt | None = Field(
        default=None, description="of the base, its snapshot after so many images; null: its end"
    )
    recipe: RangeRecipe = Field(
        description="by which each group's model is trained, on its timesteps alone; its images are those of all "
        "groups together"
    )
    allocation: Allocation = Field(default=Equal(kind="equal"), description="of the recipe's images to the groups")
    base_share: float = Field(
        default=0.0,
        ge=0,
        description="from scratch: so much of the base's training FLOPs is spent too, given out equally",
    )
    holdout_images: DrawCount | None = Field(
        default=None, description="held-out images on which a group's model is compared with the base; null: it is not"
    )

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """A group's model is one model, and only who starts from scratch has the base's compute to spend."""
        if self.recipe.snapshots:
            raise ValueError(f"recipe.snapshots: {list(self.recipe.snapshots)}; allowed: none")
        if self.recipe.pruned_images is not None:
            raise ValueError("recipe.pruned_images: a plan prunes all of its models or none; allowed: null")
        if self.base_share and self.start == "base":
            raise ValueError(f"base_share: {self.base_share} is for start 'scratch'; allowed: 0")
        if self.from_images is not None and self.start == "scratch":
            raise ValueError(f"from_images: {self.from_images} is for start 'base'; allowed: null")
        # Budgets that are settled on the way need held-out images, and a rate that does not fall yet.
        if not isinstance(self.allocation, ByGain):
            return self
        if self.holdout_images is None:
            raise ValueError("holdout_images: needed by allocation 'gain'")
        if self.start == "scratch":
            raise ValueError("start: 'scratch'; allocation 'gain' compares with the base: allowed: base")
        optimizer = self.recipe.optimizer
        if optimizer.decay != "constant" and optimizer.decay_share == 1:
            raise ValueError(
                "recipe.optimizer.decay_share: 1.0; allocation 'gain' settles budgets before the rate falls: allowed: "
                "below 1"
            )
        if optimizer.momentum_decay is not None:
            raise ValueError(
                "recipe.optimizer.momentum_decay: falls over a budget that allocation 'gain' does not know; allowed: "
                "null"
            )
        return self

    def check(self, schedule: NoiseSchedule, base: Recipe, batch_size: int) -> None:
        """Raise UserError where it cannot be carried out, except where only measured losses can show it.

        Args:
            schedule: whose timesteps are grouped.
            base: by which the base is trained.
            batch_size: of all trainings.
        """
        recipe = self.recipe
        if recipe.prediction != base.prediction or recipe.prediction == "mixed":
            raise UserError(f"recipe.prediction: '{recipe.prediction}'; the base's is '{base.prediction}', of one head")
        if self.from_images is not None and self.from_images not in base.snapshots:
            raise UserError(f"from_images: {self.from_images} is no snapshot of the base; it keeps {[*base.snapshots]}")
        least = min(self.least_budgets(self.groups.foreseen(schedule)))
        for what, needed in (("a batch", batch_size), ("the warm-up", recipe.optimizer.warmup_images)):
            if least < needed:
                raise UserError(f"recipe.images: {recipe.images} leave {least} to a group; {what} takes {needed}")
        for group in [] if self.groups.needs_excess else self.groups.foreseen(schedule):
            recipe.sampler.inside(group.range, schedule)

    def shares(self, groups: list[TimestepGroup]) -> list[float]:
        """The share of the images that each group has before any is given out by gain."""
        if isinstance(self.allocation, ByTimesteps):
            lengths = [group.range.length for group in groups]
            return [length / sum(lengths) for length in lengths]
        first = self.allocation.first if isinstance(self.allocation, ByGain) else 1.0
        return [first / len(groups)] * len(groups)

    def least_budgets(self, groups: list[TimestepGroup]) -> list[int]:
        """Images that each group has at least, were a measured one as dear as one that is trained on."""
        left = self.recipe.images - self.measured_to_choose(len(groups))
        return [int(share * left) for share in self.shares(groups)]

    def measured_to_choose(self, groups: int) -> int:
        """Held-out images that go forwards for budgets that are settled by them."""
        if not isinstance(self.allocation, ByGain):
            return 0
        # Every group before its training and after its first share, and one in each round.
        return (self.holdout_images or 0) * (2 * groups + self.allocation.rounds)
