"""`profile`: measuring the loss of every timestep."""

from typing import Literal

from pydantic import Field, PositiveInt

from unequal.settings.strict import Strict


class Profile(Strict):
    """How many draws a timestep, and against which floor."""

    images: int = Field(ge=2, description="images a timestep and split (two or more: standard errors)")
    batch_size: PositiveInt
    floor: Literal["all", "none"] | PositiveInt = Field(
        description="the best denoiser of the whole training set, of none, or of its first n images"
    )
