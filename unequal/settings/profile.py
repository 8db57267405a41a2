"""`profile` and `slots`: measuring the loss of every timestep, and dividing the timesteps by it."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from unequal.settings.strict import Strict
from unequal.settings.values import BatchSize, DrawCount


class SampledFloor(Strict):
    """The optimal-denoiser loss of a large set, estimated at each timestep from a sample of it (cDOL, 2506.13763)."""

    sampled: DrawCount = Field(ge=2, description="images of the sample, another one for each timestep")

    def __str__(self) -> str:
        return f"sampled {self.sampled}"


class Profile(Strict):
    """Draws a timestep, and the images of the optimal denoiser."""

    images: DrawCount = Field(ge=2, description="images a timestep and split (two or more: standard errors)")
    batch_size: BatchSize
    floor: Literal["all", "none"] | DrawCount | SampledFloor = Field(
        description="of the best denoiser of all training images, of none, or of the first n, then profiled alone; or "
        "of all, estimated from samples"
    )

    @property
    def profiled(self) -> slice:
        """Training images that are profiled: those of the optimal denoiser, all where there is none."""
        return slice(self.floor if isinstance(self.floor, int) else None)

    @property
    def sampled(self) -> int | None:
        """Images from which the optimal-denoiser loss is estimated at a timestep; None: all."""
        return self.floor.sampled if isinstance(self.floor, SampledFloor) else None


class Slots(Strict):
    """Number of slots, the loss that they divide, and those that are fine-tuned."""

    count: PositiveInt
    loss: Literal["total", "excess"] = Field(
        description="of the profile, or of its excess over the optimal-denoiser loss"
    )
    finetune: tuple[PositiveInt, ...] = Field(default=(), description="slots counted from 1, as the paper does")

    @model_validator(mode="after")
    def chosen_slots_exist(self) -> Self:
        """Chosen slots lie in 1 … count, each once."""
        for slot in self.finetune:
            if slot > self.count:
                raise ValueError(f"finetune: {slot} is no slot; allowed: 1 … {self.count}")
        if len(set(self.finetune)) < len(self.finetune):
            raise ValueError(f"finetune: {list(self.finetune)} names a slot twice")
        return self
