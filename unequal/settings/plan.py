"""`plans`: ways of training models for groups of timesteps, each under a name."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from unequal.settings.pruning import Pruning
from unequal.settings.recipe import RangeRecipe
from unequal.settings.strict import Strict
from unequal.timesteps.groups import BY_EXCESS, Grouping


class OneGroup(Strict):
    """All timesteps as one group."""

    kind: Literal["whole"]
    ratio: float = Field(gt=0, le=1, description="the model's largest FLOPs as a share of the base's")

    @property
    def needs_excess(self) -> bool:
        """One group is made without measuring."""
        return False


class SeveralGroups(Strict):
    """Several groups, each with a limit of FLOPs, as in the section `groups`."""

    kind: Grouping
    count: PositiveInt = Field(description="N")
    min_ratio: float = Field(gt=0, le=1, description="k: the smallest model's FLOPs as a share of the base's")

    @property
    def needs_excess(self) -> bool:
        """Whether the base's excess loss, and with it a floor, has to be known."""
        return self.kind in BY_EXCESS


class Plan(Strict):
    """How the models for groups of timesteps come about."""

    groups: Annotated[OneGroup | SeveralGroups, Field(discriminator="kind")]
    pruning: Pruning | None = Field(description="to each group's limit; null: all have the base's architecture")
    start: Literal["base", "scratch"] = Field(description="with the base's weights, or with fresh ones")
    recipe: RangeRecipe = Field(description="by which each group's model is trained, on its timesteps alone")
    base_share: float = Field(
        default=0.0, ge=0, description="from scratch: so much of the base's training FLOPs is spent too, in equal parts"
    )

    @model_validator(mode="after")
    def choices_fit(self) -> Self:
        """A group's model is one model, and only who starts from scratch has the base's compute to spend."""
        if self.recipe.snapshots:
            raise ValueError(f"recipe.snapshots: {list(self.recipe.snapshots)}; allowed: none")
        if self.base_share and self.start == "base":
            raise ValueError(f"base_share: {self.base_share} is for start 'scratch'; allowed: 0")
        return self
