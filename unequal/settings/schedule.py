"""`schedule`: how much noise each timestep has, by betas or along a flow."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from unequal.diffusion.predictions import ON_ANY_SCHEDULE
from unequal.settings.strict import Strict
from unequal.settings.values import Shift


class ScheduleSettings(Strict):
    """A schedule of any kind, with its number of timesteps T."""

    name: str
    timesteps: int = Field(gt=20, le=100_000, description="T; timesteps count 0 … T−1")

    def check(self, predictions: Mapping[str, str], learned_variance: bool) -> None:
        """Raise ValueError where a recipe, by its key, predicts what has no meaning here, or a variance is learned."""


class BetaSchedule(ScheduleSettings):
    """Betas over T timesteps."""

    name: Literal["linear", "cosine", "scaled_linear"] = Field(description="DDPM, IDDPM, latent diffusion")

    def check(self, predictions: Mapping[str, str], learned_variance: bool) -> None:
        for place, prediction in predictions.items():
            if learned_variance and prediction == "velocity":
                raise ValueError(
                    f"{place}.prediction: 'velocity' with network.variance 'learned', which goes with predictions of "
                    "DDPM and its kin; allowed: another prediction, or network.variance fixed"
                )


class FlowSchedule(ScheduleSettings):
    """Rectified flow, x_t = (1 − s)·x0 + s·ε with s = (t + ½)/T before it is shifted."""

    name: Literal["flow"]
    shift: Shift = Field(1.0, description="k: s becomes k·s/(1 + (k − 1)·s), and the SNR is divided by k²; 1: none")

    def check(self, predictions: Mapping[str, str], learned_variance: bool) -> None:
        for place, prediction in predictions.items():
            if prediction not in ON_ANY_SCHEDULE:
                raise ValueError(
                    f"{place}.prediction: '{prediction}' has no meaning on schedule 'flow', where α² + σ² is not 1; "
                    f"allowed: {', '.join(ON_ANY_SCHEDULE)}"
                )
        if learned_variance:
            raise ValueError(
                "network.variance: 'learned' has no meaning on schedule 'flow', which has no betas; allowed: fixed"
            )


#: The noise of the forward process: each kind with its own keys.
Schedule = Annotated[BetaSchedule | FlowSchedule, Field(discriminator="name")]
