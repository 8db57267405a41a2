"""`contribution`: where in the sampling of super-resolution the predicted x0 is replaced by the true one."""

from typing import Self

from pydantic import Field, PositiveInt, model_validator

from unequal.settings.numbers import BatchSize, DrawCount
from unequal.settings.strict import Strict


class Windows(Strict):
    """Ranges of one width whose beginnings are spread evenly, the first at 1 and the last ending at T."""

    count: int = Field(gt=0, le=10_000)
    width: PositiveInt = Field(description="timesteps")


class Contribution(Strict):
    """Which ranges of timesteps are tried, and on how many images."""

    images: DrawCount = Field(ge=2, description="held-out images that are enlarged in every run")
    batch_size: BatchSize = Field(description="images at once; a call of the network holds one for each run")
    shown: PositiveInt = Field(description="images kept for the report's pictures")
    clip: bool = Field(description="keep predicted images within the range of pixels")
    ranges: tuple[tuple[PositiveInt, PositiveInt], ...] = Field(
        min_length=1, description="pairs [a, b] of timesteps, counted from 1 as in the paper"
    )
    windows: Windows = Field(description="further ranges, which slide over all timesteps")

    @model_validator(mode="after")
    def ranges_replace_something(self) -> Self:
        """The last step, timestep 1, is never replaced."""
        for first, last in self.ranges:
            if not max(first, 2) <= last:
                raise ValueError(f"ranges: [{first}, {last}] must rise and end at 2 or later; 1 is never replaced")
        if len(set(self.ranges)) < len(self.ranges):
            raise ValueError(f"ranges: {[list(one) for one in self.ranges]} names a range twice")
        if self.shown > self.images:
            raise ValueError(f"shown: {self.shown} exceeds images {self.images}")
        return self

    def fits(self, timesteps: int) -> None:
        """Raises ValueError where a range or a window goes beyond T timesteps."""
        last = max(b for _, b in self.ranges)
        if last > timesteps:
            raise ValueError(f"contribution.ranges: {last} lies beyond schedule.timesteps {timesteps}")
        if self.windows.width > timesteps:
            raise ValueError(f"contribution.windows.width: {self.windows.width} exceeds schedule.timesteps {timesteps}")
