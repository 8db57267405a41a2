"""`network.task`: what a network is trained for, and so what it sees beside the noisy image."""

from typing import Annotated, Literal

from pydantic import Field

from unequal.settings.strict import Strict


class Generation(Strict):
    """Images out of noise alone."""

    kind: Literal["generation"]

    @property
    def enlargement(self) -> None:
        """None: nothing is enlarged."""
        return None


class SuperResolution(Strict):
    """Images out of noise and their own low-resolution form, which the network sees enlarged as further channels."""

    kind: Literal["super_resolution"]
    factor: int = Field(ge=2, description="pixels of the image for one of its low-resolution form, a side")

    @property
    def enlargement(self) -> int:
        """The factor."""
        return self.factor


Task = Annotated[Generation | SuperResolution, Field(discriminator="kind")]
