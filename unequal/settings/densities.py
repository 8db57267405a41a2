"""Keys of samplers of all densities, and densities that do not change; `unequal.timesteps.building` makes samplers.

Where a combination has no meaning, a density narrows the type of a common key, and pydantic refuses the rest.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, GetPydanticSchema, NonNegativeInt, PositiveFloat, PositiveInt

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.strict import Strict
from unequal.settings.values import Shift
from unequal.timesteps.building import build_sampler
from unequal.timesteps.densities import MOST_MODE, Ends
from unequal.timesteps.partition import Partition


def partition_of(ranges: Sequence[Sequence[int]], what: str = "slots") -> Partition:
    """Ranges of a file as a partition. Raises ValueError where they are none, which says in which file."""
    try:
        return Partition(ranges, what)
    except UserError as error:
        raise ValueError(str(error)) from None


#: Slots in a file: [first, last] of each, both inclusive, from the data end to the noise end.
SlotRanges = Annotated[
    Partition,
    GetPydanticSchema(
        lambda _, schema: schema(
            Annotated[tuple[tuple[NonNegativeInt, NonNegativeInt], ...], AfterValidator(partition_of)]
        )
    ),
]

HOW = Field(
    description="one timestep after another, evenly spread, half of a batch the other half's mirror image (SpeeD), or "
    "as many timesteps from each of the density's parts"
)
#: Draws from any density; from one over all timesteps; and from one that has parts.
Spread = Annotated[Literal["independent", "low_discrepancy"], HOW]
SpreadOrMirrored = Annotated[Literal["independent", "low_discrepancy", "mirrored"], HOW]
AnyDraw = Annotated[Literal["independent", "low_discrepancy", "mirrored", "stratified"], HOW]


class Sampler(Strict):
    """Keys of samplers of all densities: how a batch is drawn, and how losses are weighted back."""

    density: str
    draw: SpreadOrMirrored | AnyDraw = "independent"
    unbiased: bool = Field(default=False, description="weight losses by (1/T)/p_t: the uniform sampler's gradient")
    normalised: bool = Field(False, description="scale losses so that the base's have E_p[w·L] = E[L]")
    #: Keys that count images, and shrink with a training.
    in_images: ClassVar[tuple[str, ...]] = ()

    @property
    def needs(self) -> tuple[str, ...]:
        """Measurements of the base that it needs: attributes of `BaseMeasurements`."""
        return ("loss",) if self.normalised else ()

    def check(self, images: int, plain_epsilon: bool) -> None:
        """Raise ValueError where it does not fit a training of so many images, of ε without loss weights or not."""

    def check_profile(self, draws: int, learned_variance: bool) -> None:
        """Raise ValueError where it needs more than a profile of so many draws a timestep can give.

        A profile holds squared errors, and no terms of the bound by which a variance is learned.
        """

    def check_weight(self, fixed: bool) -> None:
        """Raise ValueError where it does not fit a loss weight, which is fixed before the training or not."""
        if self.normalised and not fixed:
            raise ValueError(
                "sampler.normalised: the loss weight is learned, or there are three heads; allowed: one head, and a "
                "weight by a formula or none"
            )

    def shortened(self, share: float) -> Self:
        """Sampler of a training of a share of the images."""
        return self.model_copy(update={key: max(1, round(share * getattr(self, key))) for key in self.in_images})

    def check_schedule(self, schedule: NoiseSchedule) -> None:
        """Raise UserError where it cannot be made for this schedule, as far as that is known before all stages."""
        if self.density != "slot" and not self.needs:
            build_sampler(self, schedule)


class FixedDensity(Sampler):
    """Probabilities that do not change."""

    draw: SpreadOrMirrored = "independent"


class Uniform(FixedDensity):
    """Every timestep equally likely."""

    density: Literal["uniform"]


class Tilted(FixedDensity):
    """p ∝ ((t + ½)/T)^power, or its mirror image."""

    density: Literal["near_noise", "near_data"]
    power: PositiveFloat


class Asymmetric(FixedDensity):
    """SpeeD's: timesteps below a boundary are more likely."""

    density: Literal["asymmetric"]
    boundary: float = Field(gt=0, lt=1, description="share of T; SpeeD takes 0.7")
    ratio: float = Field(gt=0, le=1e6, description="how many times as likely; SpeeD takes 5")


class Loss(FixedDensity):
    """p ∝ L_t of the base's profile."""

    density: Literal["loss"]

    @property
    def needs(self) -> tuple[str, ...]:
        return ("loss",)


class Formula(FixedDensity):
    """A density by a formula of `unequal.timesteps.densities`, shifted if asked for."""

    shift: Shift = Field(default=1.0, description="k, by which the density is moved towards the noise; 1: none")
    ends: Ends = Field("open", description="the outermost timesteps get what lies beyond (open), or it is cut (closed)")


class PlainFormula(Formula):
    """Uniform in the time of a flow or in log-SNR, or cosmap (2403.03206)."""

    density: Literal["uniform_time", "uniform_log_snr", "cosmap"]


class LogitNormal(Formula):
    """ln(s/(1 − s)) is normal (2403.03206); a higher mean lies nearer the noise."""

    density: Literal["logit_normal"]
    mean: float = 0.0
    std: PositiveFloat = 1.0


class Mode(Formula):
    """2403.03206, eq. 20: above scale 0, more in the middle."""

    density: Literal["mode"]
    scale: float = Field(default=1.29, ge=-1, le=MOST_MODE)


class Beta(Formula):
    """s ~ Beta(a, b); 0.6 and 0.6 favour both ends (2407.12173)."""

    density: Literal["beta"]
    a: PositiveFloat
    b: PositiveFloat


class LogNormal(Formula):
    """ln(σ/α) is normal: EDM's (2206.00364). EDM2 takes −0.4 and 1.0, or −0.8 and 1.6."""

    density: Literal["log_normal"]
    mean: float = -1.2
    std: PositiveFloat = 1.2


class Laplace(Formula):
    """λ has a Laplace distribution (2407.03297)."""

    density: Literal["laplace"]
    mean: float = 0.0
    scale: PositiveFloat = 0.5


class Cauchy(Formula):
    """λ has a Cauchy distribution (2407.03297)."""

    density: Literal["cauchy"]
    mean: float = 0.0
    scale: PositiveFloat = 1.0


class OverSlots(Sampler):
    """Equal probability for each slot of equal loss, uniform within it."""

    density: Literal["slots"]
    draw: AnyDraw = "independent"
    ranges: SlotRanges | None = Field(None, description="[first, last] of each, from the data end on; null: the base's")

    @property
    def needs(self) -> tuple[str, ...]:
        return (*super().needs, "slots") if self.ranges is None else super().needs


class Slot(Sampler):
    """Uniform inside one range, a slot or a group, which the stage gives; weights cannot undo probabilities of zero."""

    density: Literal["slot"]
    draw: Spread = "independent"
    unbiased: Literal[False] = False
    normalised: Literal[False] = False
    intervals: PositiveInt | None = Field(None, description="of equal log-SNR, equally often drawn; null: none")
