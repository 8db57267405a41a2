"""`merging`: how the unpruned experts are merged into one model of the base's size."""

from typing import Literal

from pydantic import Field

from unequal.settings.strict import Strict


class Merging(Strict):
    """θ_base + Σ_i w_i·(θ_i − θ_base) over the experts i (task arithmetic, 2212.04089)."""

    weights: Literal["mean"] | float | tuple[float, ...] = Field(
        description="w_i: mean (1/N each), one number for all, or one a group from the data end on"
    )
