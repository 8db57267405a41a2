"""`training.average`: of which steps' weights a training's model is the average."""

from typing import Annotated, Literal, Self

from pydantic import Field

from unequal.settings.strict import Strict

#: Relative width of a plain mean over all steps, 1/√12: no power-function average is wider.
WIDEST = 12**-0.5


class ExponentialAverage(Strict):
    """The same horizon, some 1/(1 − decay) steps, in a training of any length; its first steps are not averaged."""

    kind: Literal["exponential"]
    decay: float = Field(
        ge=0, lt=1, description="share of the average that a step keeps, after warm-up; 0: last weights"
    )

    def at_batch(self, ratio: float) -> Self:
        """The average with the same horizon in images, where batches are `ratio` times as large."""
        return self.model_copy(update={"decay": self.decay**ratio})


class PowerAverage(Strict):
    """The same share of a training of any length: EDM2's power-function average (2312.02696)."""

    kind: Literal["power"]
    width: float = Field(
        gt=0, le=WIDEST, description="relative width: the standard deviation of its profile, as a share of the training"
    )
    keep: int | None = Field(
        default=None,
        gt=0,
        le=1000,
        description="points of the training at which averages of two widths are kept, from which "
        "`unequal average` makes any other; null: none",
    )

    def at_batch(self, ratio: float) -> Self:
        """Itself: a share of the training is the same share at any batch."""
        return self


Average = Annotated[ExponentialAverage | PowerAverage, Field(discriminator="kind")]
