"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.grid.params import Gridded
from studies.grid.settings import parsed_batch
from studies.predictions.settings import Predictions
from unequal.settings.params.roles import THREE_HEADS, Role
from unequal.settings.params.scored import Scored
from unequal.settings.profile import Profile
from unequal.training.objectives.three_heads import PERIODS


class Params(Gridded, Scored):
    """All sections, and what holds of several of them."""

    profile: Profile
    predictions: Predictions

    @property
    def grid_roles(self) -> dict[str, Role]:
        """Single predictions, and three heads."""
        return super().grid_roles | dict.fromkeys(self.predictions.mixed, THREE_HEADS)

    @property
    def samples_three_heads(self) -> bool:
        """All its mixed models are sampled."""
        return True

    @model_validator(mode="after")
    def predictions_have_trials(self) -> Self:
        """Three heads are held against single predictions, from the same training seeds."""
        if len(self.grid.batches) != 1:
            raise ValueError("predictions: needs a grid of one batch, whose recipes it is held against")
        for name in self.predictions.mixed:
            if name in self.grid.recipes:
                raise ValueError(f"predictions.mixed: '{name}' is a recipe of the grid, each of which has one head")
        return self

    @model_validator(mode="after")
    def every_period_has_a_step(self) -> Self:
        """The report compares which head leads in the first and in the last period of a training."""
        for batch in self.grid.batches:
            size, parts = parsed_batch(batch)
            for name in self.predictions.mixed:
                if (images := self.recipes[name].images) < (needed := PERIODS * size * parts):
                    raise ValueError(
                        f"recipes.{name}.images: {images}; three heads are compared over {PERIODS} periods of their "
                        f"training: at least {needed} with batches of {size * parts}"
                    )
        return self
