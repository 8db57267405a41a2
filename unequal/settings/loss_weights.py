"""`loss_weight`: how the losses of different timesteps are weighted; each kind with its keys."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from unequal.settings.strict import Strict
from unequal.settings.values import DrawCount
from unequal.timesteps.weights import Space

#: Ranges of timesteps, equal in log-SNR, in which losses are averaged, where the settings say nothing else.
BINS = 40


class LossWeight(Strict):
    """A weight of any kind."""

    kind: str
    #: Whether it is known before the training, and the same throughout.
    fixed: ClassVar[bool] = True

    def check(self, sampler: str, three_heads: bool) -> None:
        """Raise ValueError where it does not fit a density of the sampler, or three heads."""


class NoWeight(LossWeight):
    """The plain squared error of the prediction."""

    kind: Literal["none"]


class PlainWeight(LossWeight):
    """√SNR for x0 (2310.08442); the cosmap density as a weight (2403.03206); SpeeD's (2405.17403)."""

    kind: Literal["debiased", "cosmap", "change_aware"]


class SnrWeight(LossWeight):
    """min(SNR, γ) for x0 (2303.09556), the paper takes 5; or SNR/(1 + SNR)^γ (2204.00227), the paper takes 1."""

    kind: Literal["min_snr", "p2"]
    gamma: PositiveFloat


class SoftMinSnr(LossWeight):
    """SNR·γ/(SNR + γ) for x0: k-diffusion's, where Min-SNR has a corner; its γ is 4."""

    kind: Literal["soft_min_snr"]
    gamma: PositiveFloat = 4.0


class Edm(LossWeight):
    """SNR + 1/σ_d² for x0 (2206.00364), σ_d the standard deviation of the data."""

    kind: Literal["edm"]
    sigma_data: PositiveFloat = 0.5


class Constant(LossWeight):
    """1 for errors in one space, whatever the network predicts."""

    kind: Literal["constant"]
    space: Space


class Learned(LossWeight):
    """A weight by the losses of one head, as they come."""

    fixed: ClassVar[bool] = False

    def check(self, sampler: str, three_heads: bool) -> None:
        if three_heads:
            raise ValueError(
                f"loss_weight.kind: '{self.kind}' is for one head; allowed for three: mixing.train 'balanced', "
                "which divides each head's loss by its running mean"
            )


class RunningMean(Learned):
    """Each loss over the running mean of losses at such timesteps."""

    kind: Literal["running_mean"]
    half_life_images: PositiveInt = Field(description="images after which a loss counts half")
    bins: DrawCount = Field(default=BINS, description="ranges of timesteps, equal in log-SNR, that have a mean")


class Uncertain(Learned):
    """The loss over an uncertainty that is learned with the network."""

    def check(self, sampler: str, three_heads: bool) -> None:
        super().check(sampler, three_heads)
        if sampler == "loss_second_moment":
            raise ValueError(
                f"loss_weight.kind: '{self.kind}' takes the size of losses away, from which sampler.density "
                "'loss_second_moment' learns; allowed with it: any other sampler"
            )


class LearnedUncertainty(Uncertain):
    """EDM2's (2312.02696, eq. 14): w·‖Δ‖²/e^u + u, where u, a function of the noise, is learned with the network."""

    kind: Literal["learned_uncertainty"]


#: How losses are weighted: each kind with its own keys.
AnyLossWeight = Annotated[
    NoWeight | PlainWeight | SnrWeight | SoftMinSnr | Edm | Constant | RunningMean | LearnedUncertainty,
    Field(discriminator="kind"),
]
