"""`pruning`: how the base is brought under a group's FLOPs limit."""

from typing import Literal

from pydantic import Field, PositiveInt

from unequal.settings.strict import Strict


class Pruning(Strict):
    """Importance of channels, and the data that it is measured on."""

    method: Literal["random", "magnitude", "taylor"]
    images: PositiveInt = Field(description="images of the one batch whose gradients `taylor` takes")
