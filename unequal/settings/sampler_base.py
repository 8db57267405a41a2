"""Keys of samplers of all densities: how a batch is drawn, how losses are weighted back, what is needed of a base.

Where a combination has no meaning, the density's class narrows the type of a key, and pydantic refuses the rest.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, GetPydanticSchema, NonNegativeInt
from typing_extensions import TypedDict

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.strict import Strict
from unequal.timesteps.densities import mirror
from unequal.timesteps.draws import Independent, LowDiscrepancy, Mirrored, Stratified
from unequal.timesteps.partition import Partition, TimestepSet
from unequal.timesteps.samplers import TimestepSampler, of_length


def made_of(form: Any, build: Callable[[Any], Any]) -> GetPydanticSchema:
    """Conversion of a file's lists of this form to a value."""
    return GetPydanticSchema(lambda _, schema: schema(Annotated[form, AfterValidator(build)]))


def partition_of(ranges: Sequence[Sequence[int]], what: str = "slots") -> Partition:
    """Ranges of a file as a partition. Raises ValueError where they are none, which says in which file."""
    try:
        return Partition(ranges, what)
    except UserError as error:
        raise ValueError(str(error)) from None


#: Slots in a file: [first, last] of each, both inclusive, from the data end to the noise end.
SlotRanges = Annotated[Partition, made_of(tuple[tuple[NonNegativeInt, NonNegativeInt], ...], partition_of)]


class BaseMeasurements(TypedDict, total=False):
    """All that a sampler's settings may name in `needs`; losses are those of the base's profile."""

    #: Mean loss of each timestep, [T].
    loss: Annotated[np.ndarray, made_of(tuple[float, ...], np.array)]
    #: Loss of each draw, [T, n].
    losses: Annotated[np.ndarray, made_of(tuple[tuple[float, ...], ...], np.array)]
    #: Ranges of equal loss.
    slots: SlotRanges


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
    #: Keys that count images, and shrink with a training.
    in_images: ClassVar[tuple[str, ...]] = ()

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
        """Sampler of a training of a share of the images."""
        return self.model_copy(update={key: max(1, round(share * getattr(self, key))) for key in self.in_images})

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
