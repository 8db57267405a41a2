"""Keys of samplers of all densities: how a batch is drawn, and how losses are weighted back.

Where a combination has no meaning, the density's class narrows the type of a key, and pydantic refuses the rest.
"""

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.profile import BaseMeasurements
from unequal.settings.strict import Strict
from unequal.timesteps.densities import mirror
from unequal.timesteps.draws import Independent, LowDiscrepancy, Mirrored, Stratified
from unequal.timesteps.partition import Partition, TimestepSet
from unequal.timesteps.samplers import TimestepSampler, of_length

HOW = Field(
    description="one timestep after another, evenly spread, half of a batch the other half's mirror image (SpeeD), or "
    "as many timesteps from each of the density's parts"
)
#: Draws from any density; from one over all timesteps; and from one that has parts.
Spread = Annotated[Literal["independent", "low_discrepancy"], HOW]
SpreadOrMirrored = Annotated[Literal["independent", "low_discrepancy", "mirrored"], HOW]
AnyDraw = Annotated[Literal["independent", "low_discrepancy", "mirrored", "stratified"], HOW]


class Sampler(Strict):
    """A sampler of any density."""

    density: str
    draw: str = "independent"
    unbiased: bool = Field(default=False, description="weight losses by (1/T)/p_t: the uniform sampler's gradient")
    normalised: bool = Field(
        default=False,
        description="scale losses so that the base's average to their plain mean, whatever density and loss weight: "
        "E_p[w·L] = E[L]",
    )
    #: Whether it is for a training of all timesteps.
    for_all: ClassVar[bool] = True

    @property
    def needs(self) -> tuple[str, ...]:
        """Measurements of the base that it needs: keys of `BaseMeasurements`."""
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
        """Sampler of a training of a share of the images: its keys in images are scaled."""
        return self

    def build(self, schedule: NoiseSchedule, base: BaseMeasurements | None = None) -> TimestepSampler:
        """The sampler. Raises UserError where it cannot be made for this schedule, or from what is known of a base."""
        known = base or BaseMeasurements()
        if not known.keys() >= set(self.needs):
            raise UserError(f"sampler.density: '{self.density}' needs the base's profile, and there is none")
        sampler = self.sampler(schedule, known)
        sampler.known_loss = of_length(known["loss"], schedule.timesteps) if self.normalised else None
        return sampler

    def check_schedule(self, schedule: NoiseSchedule) -> None:
        """Raise UserError where it cannot be made for this schedule, as far as that is known before all stages."""
        if self.for_all and not self.needs:
            self.build(schedule)

    def inside(self, trained: TimestepSet, schedule: NoiseSchedule) -> TimestepSampler:
        """The sampler for a model of a range of timesteps. Raises UserError where it is for all."""
        raise UserError(f"sampler.density: '{self.density}' covers all timesteps; allowed inside a range: slot")

    def draws(self, schedule: NoiseSchedule, parts: Partition | None = None) -> Independent:
        """The draw. Raises UserError where the schedule cannot be mirrored."""
        match self.draw:
            case "low_discrepancy":
                return LowDiscrepancy()
            case "mirrored":
                return Mirrored(mirror(schedule))
            case "stratified" if parts is not None:
                return Stratified(parts)
        return Independent()

    @abstractmethod
    def sampler(self, schedule: NoiseSchedule, base: BaseMeasurements) -> TimestepSampler:
        """The sampler, where `base` holds what is needed."""
