"""`groups` and `plans`: timesteps in groups, with an expert for each, trained and pruned."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from unequal.settings.pruning import Pruning
from unequal.settings.recipe import RangeRecipe
from unequal.settings.strict import Strict
from unequal.timesteps.groups import BY_EXCESS, Grouping


class PlannedGroups(Strict):
    """The groups of a plan, which may go by measured losses."""

    kind: str

    @property
    def needs_excess(self) -> bool:
        """True where the base's excess over the optimal-denoiser loss has to be known."""
        return self.kind in BY_EXCESS


class OneGroup(PlannedGroups):
    """All timesteps as one group."""

    kind: Literal["whole"]
    ratio: float = Field(gt=0, le=1, description="the model's largest FLOPs as a share of the base's")


class InterleavedGroups(PlannedGroups):
    """Timesteps t ≡ i (mod N): as many models as other groupings have, none of them for timesteps of its own kind."""

    kind: Literal["interleaved"]
    count: int = Field(ge=2, description="N")
    ratio: float = Field(default=1.0, gt=0, le=1, description="every model's largest FLOPs as a share of the base's")


class TwoGroups(PlannedGroups):
    """Two groups with a boundary between them, in λ, which is the same for every schedule and shift."""

    kind: Literal["boundary"]
    log_snr: float = Field(description="λ = ln(α²/σ²): timesteps with so much noise or more are the second group's")
    ratio: float = Field(default=1.0, gt=0, le=1, description="both models' largest FLOPs as a share of the base's")


class SeveralGroups(PlannedGroups):
    """Several groups, each with a limit of FLOPs, as in the section `groups`."""

    kind: Grouping
    count: PositiveInt = Field(description="N")
    min_ratio: float = Field(gt=0, le=1, description="k: the smallest model's FLOPs as a share of the base's")


class Groups(Strict):
    """The groups from the data end (0) to the noise end."""

    ids: tuple[NonNegativeInt, ...] = Field(min_length=1, description="0, 1, … N−1; N is the number of groups")
    kind: Grouping = Field(description="by SNR, size, excess loss or clusters; how limits are given out")
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


class Plan(Strict):
    """A way to train models for groups of timesteps."""

    groups: Annotated[OneGroup | InterleavedGroups | TwoGroups | SeveralGroups, Field(discriminator="kind")]
    pruning: Pruning | None = Field(description="to each group's limit; null: all have the base's architecture")
    start: Literal["base", "scratch"] = Field(description="with the base's weights, or with fresh ones")
    from_images: PositiveInt | None = Field(None, description="the base's snapshot after so many images; null: its end")
    recipe: RangeRecipe = Field(description="of each group's model, on its timesteps; images of all groups together")
    allocation: Literal["equal", "timesteps"] = Field("equal", description="of images: equally, or by timesteps")
    base_share: float = Field(0.0, ge=0, description="from scratch: share of the base's training FLOPs spent too")

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
        return self
