"""`confirmation`: what came first in the sweep is carried out once more, on bases that had no say in that."""

from pydantic import Field

from unequal.comparison.settings import Confirmation, Endpoint


class Sweep(Confirmation):
    """By which endpoint a boundary comes first, and blocks in which it is held against the joint model once more."""

    by: Endpoint = Field(description="of the endpoints that are judged")
