"""What has been measured of the base that samplers are made from: arrays and slots, which are lists in a file."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, GetPydanticSchema, NonNegativeInt
from typing_extensions import TypedDict

from unequal.errors import UserError
from unequal.timesteps.partition import Partition


def made_of(form: Any, build: Callable[[Any], Any]) -> GetPydanticSchema:
    """How a file's lists of this form become a value."""
    return GetPydanticSchema(lambda _, schema: schema(Annotated[form, AfterValidator(build)]))


def partition_of(ranges: Sequence[Sequence[int]], what: str = "slots") -> Partition:
    """Ranges of a file as a partition. Raises ValueError where they are none, which says in which file."""
    try:
        return Partition(ranges, what)
    except UserError as error:
        raise ValueError(str(error)) from None


#: Slots in a file: [first, last] of each, both inclusive, from the data end to the noise end.
SlotRanges = Annotated[Partition, made_of(tuple[tuple[NonNegativeInt, NonNegativeInt], ...], partition_of)]


class Measured(TypedDict, total=False):
    """All that a sampler's settings may name in `needs`; losses are those of the base's profile."""

    #: Mean loss of each timestep, [T].
    loss: Annotated[np.ndarray, made_of(tuple[float, ...], np.array)]
    #: Loss of each draw, [T, n].
    losses: Annotated[np.ndarray, made_of(tuple[tuple[float, ...], ...], np.array)]
    #: Ranges of equal loss.
    slots: SlotRanges
