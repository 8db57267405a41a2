"""What keywords of densities and weights may be, as annotations that settings take their bounds from."""

from typing import Annotated, NamedTuple


class Above(NamedTuple):
    """Numbers above a bound, as an annotation of them."""

    bound: float


class Between(NamedTuple):
    """Numbers from a lowest to a highest, both of them allowed, as an annotation of them."""

    lowest: float
    highest: float


Positive = Annotated[float, Above(0)]
