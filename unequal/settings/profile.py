"""`profile`: measuring the loss of every timestep."""

from typing import Literal

from pydantic import Field

from unequal.settings.numbers import BatchSize, DrawCount
from unequal.settings.strict import Strict


class SampledFloor(Strict):
    """The floor of a large set, estimated at each timestep from a sample of it (cDOL, 2506.13763)."""

    sampled: DrawCount = Field(ge=2, description="images of the sample, another one for each timestep")

    def __str__(self) -> str:
        return f"sampled {self.sampled}"


class Profile(Strict):
    """How many draws a timestep, and against which floor."""

    images: DrawCount = Field(ge=2, description="images a timestep and split (two or more: standard errors)")
    batch_size: BatchSize
    floor: Literal["all", "none"] | DrawCount | SampledFloor = Field(
        description="of the best denoiser of all training images, of none, or of the first n, then profiled alone; or "
        "of all, estimated from samples"
    )

    @property
    def profiled(self) -> slice:
        """Which of the training images are profiled: those that the floor is of, all where there is none."""
        return slice(self.floor if isinstance(self.floor, int) else None)

    @property
    def sampled(self) -> int | None:
        """Images from which the floor is estimated at a timestep; None: it is that of all."""
        return self.floor.sampled if isinstance(self.floor, SampledFloor) else None
