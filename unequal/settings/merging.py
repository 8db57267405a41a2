"""`merging`: how the unpruned experts are merged into one model of the base's size."""

from typing import Annotated, Literal

from pydantic import Field

from unequal.settings.strict import Strict

#: Of what an expert has learned: beyond, float32 would overflow long after everything is trained.
Factor = Annotated[float, Field(ge=-1000, le=1000)]


class Merging(Strict):
    """θ_base + Σ_i w_i·(θ_i − θ_base) over the experts i (task arithmetic, 2212.04089)."""

    weights: Literal["mean"] | Factor | tuple[Factor, ...] = Field(
        description="w_i: mean (1/N each), one number for all, or one a group from the data end on"
    )
