"""`schedule`: how much noise each timestep has, by betas or along a flow."""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.settings.strict import Strict


class ScheduleSettings(Strict):
    """What all kinds have in common: their number of timesteps T."""

    name: str
    timesteps: int = Field(gt=20, le=100_000, description="T; timesteps count 0 … T−1")
    #: Whether α² + σ² = 1.
    preserves_variance: ClassVar[bool] = True

    @abstractmethod
    def tables(self) -> NoiseSchedule:
        """The schedule itself. Raises UserError where there are too few timesteps for it."""

    @property
    def facts(self) -> dict[str, str | float]:
        """What tells it, beside T, in a record: arguments of `NoiseSchedule.named` but for its number of timesteps."""
        return {"schedule": self.name}


class BetaSchedule(ScheduleSettings):
    """Which betas, and how many timesteps T."""

    name: Literal["linear", "cosine", "scaled_linear"] = Field(description="DDPM, IDDPM, latent diffusion")

    def tables(self) -> NoiseSchedule:
        return NoiseSchedule.named(self.name, self.timesteps)


class FlowSchedule(ScheduleSettings):
    """Rectified flow, x_t = (1 − s)·x0 + s·ε with s = (t + ½)/T before it is shifted."""

    name: Literal["flow"]
    preserves_variance: ClassVar[bool] = False
    shift: PositiveFloat = Field(
        default=1.0, description="k: s becomes k·s/(1 + (k − 1)·s), and the SNR is divided by k²; 1: none"
    )

    def tables(self) -> NoiseSchedule:
        return Flow(self.timesteps, self.shift)

    @property
    def facts(self) -> dict[str, str | float]:
        return {"schedule": self.name, "shift": self.shift}


#: The noise of the forward process: each kind with its own keys.
Schedule = Annotated[BetaSchedule | FlowSchedule, Field(discriminator="name")]
