"""`loss_weight`: how the losses of different timesteps are weighted; each kind with its keys."""

from abc import abstractmethod
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator
from torch import Tensor, ones_like

from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.numbers import DrawCount
from unequal.settings.strict import Strict
from unequal.settings.tabled import keywords, one_of, settings_of
from unequal.timesteps.clusters import MeasuredLikeness, clusters_alike
from unequal.timesteps.weights import WEIGHTS, loss_weights, of_prediction

#: Ranges of timesteps, alike in log-SNR, in which losses are averaged, where the settings say nothing else.
BINS = 40


class LossWeightSettings(Strict):
    """What all kinds have in common."""

    kind: str

    @property
    @abstractmethod
    def fixed(self) -> bool:
        """Whether it is known before the training, and the same throughout."""

    def check(self, sampler: str, three_heads: bool) -> None:
        """Raise ValueError where it does not fit a kind of sampler, or three heads."""

    def check_schedule(self, schedule: NoiseSchedule) -> None:
        """Raise UserError where it cannot be made for this schedule."""

    @abstractmethod
    def table(self, prediction: str, snr: Tensor) -> Tensor:
        """Factor of a squared error of the prediction at each timestep, as far as it is fixed, [T].

        Args:
            prediction: of the network, or of one of its heads.
            snr: [T], linear.
        """


class LossWeight(LossWeightSettings):
    """How the losses of different timesteps are weighted: not at all, by Min-SNR or P2, or each by its running mean."""

    kind: Literal["none", "min_snr", "p2", "running_mean"]
    gamma: PositiveFloat | None = Field(default=None, description="γ of min_snr (5) or p2 (1)")
    half_life_images: PositiveInt | None = Field(
        default=None, description="of running_mean: images after which a loss counts half in it"
    )
    bins: DrawCount | None = Field(
        default=None, description=f"of running_mean: ranges of timesteps, alike in log-SNR, that have one; null: {BINS}"
    )

    @model_validator(mode="after")
    def keys_belong_to_the_kind(self) -> Self:
        """A formula needs its γ, a running mean its half-life; where a key has no meaning, it is left out."""
        by_formula, running = self.kind in ("min_snr", "p2"), self.kind == "running_mean"
        needed = {"gamma": by_formula, "half_life_images": running, "bins": running and self.bins is not None}
        for name, belongs in needed.items():
            if belongs != (getattr(self, name) is not None):
                raise ValueError(f"{name}: {'needed by' if belongs else 'has no meaning for'} '{self.kind}'")
        return self

    @property
    def fixed(self) -> bool:
        return self.kind != "running_mean"

    def table(self, prediction: str, snr: Tensor) -> Tensor:
        return loss_weights(self.kind if self.fixed else "none", prediction, snr, self.gamma)


class TabledWeight(LossWeightSettings):
    """A weight of `unequal.timesteps.weights.WEIGHTS`."""

    @property
    def fixed(self) -> bool:
        return True

    def table(self, prediction: str, snr: Tensor) -> Tensor:
        function = {one.__name__: one for one in WEIGHTS}[self.kind]
        return of_prediction(function(snr, **keywords(self, function)), prediction, snr)


class Uncertain(LossWeightSettings):
    """Over an uncertainty that is learned beside the network."""

    @property
    def fixed(self) -> bool:
        return False

    def table(self, prediction: str, snr: Tensor) -> Tensor:
        return ones_like(snr)

    def check(self, sampler: str, three_heads: bool) -> None:
        if three_heads:
            raise ValueError(
                f"loss_weight.kind: '{self.kind}' is for one head; allowed for three: mixing.train 'balanced', "
                "which divides each head's loss by its running mean"
            )
        if sampler == "loss_second_moment":
            raise ValueError(
                f"loss_weight.kind: '{self.kind}' takes the size of losses away, from which sampler.kind "
                "'loss_second_moment' learns; allowed with it: any other sampler"
            )


class LearnedUncertainty(Uncertain):
    """EDM2's (2312.02696, eq. 14): w·‖Δ‖²/e^u + u, where u, a function of the noise, is learned beside the network."""

    kind: Literal["learned_uncertainty"]


class LearnedClusterUncertainty(Uncertain):
    """ANT's (1705.07115, 2306.00354): ½·(‖Δ‖²/(K·e^z) + z), a z for each of K clusters of timesteps."""

    kind: Literal["cluster_uncertainty"]
    clusters: int = Field(ge=2, le=100, description="K, by dynamic programming; ANT takes 5")
    alike_in: MeasuredLikeness = Field(default="log_snr", description="what timesteps of a cluster have in common")

    def check_schedule(self, schedule: NoiseSchedule) -> None:
        if self.alike_in != "gradients":  # of which nothing is known before they are measured
            clusters_alike(self.alike_in, schedule, self.clusters)


TABLED: tuple[type[TabledWeight], ...] = tuple(settings_of(one, TabledWeight) for one in WEIGHTS)

#: How losses are weighted: each kind with its own keys.
if TYPE_CHECKING:
    AnyLossWeight = LossWeight | TabledWeight | LearnedUncertainty | LearnedClusterUncertainty
else:
    AnyLossWeight = one_of((LossWeight, *TABLED, LearnedUncertainty, LearnedClusterUncertainty))
