"""`profile`: measuring the loss of every timestep."""

from typing import Literal

from pydantic import Field

from unequal.settings.numbers import BatchSize, DrawCount
from unequal.settings.strict import Strict


class Profile(Strict):
    """How many draws a timestep, and against which floor."""

    images: DrawCount = Field(ge=2, description="images a timestep and split (two or more: standard errors)")
    batch_size: BatchSize
    floor: Literal["all", "none"] | DrawCount = Field(
        description="of the best denoiser of all training images, of none, or of the first n, then profiled alone"
    )

    @property
    def profiled(self) -> slice:
        """Which of the training images are profiled: those that the floor is of, all where there is none."""
        return slice(self.floor if isinstance(self.floor, int) else None)
