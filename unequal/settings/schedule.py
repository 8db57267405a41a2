"""`schedule`: the noise schedule of the forward process."""

from typing import Literal

from pydantic import Field

from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.strict import Strict


class Schedule(Strict):
    """Which betas, and how many timesteps T."""

    name: Literal["linear", "cosine", "scaled_linear"] = Field(description="DDPM, IDDPM, latent diffusion")
    timesteps: int = Field(gt=20, le=100_000, description="T; timesteps count 0 … T−1")

    def tables(self) -> NoiseSchedule:
        """The schedule itself. Raises UserError where there are too few timesteps for it."""
        return NoiseSchedule.named(self.name, self.timesteps)
