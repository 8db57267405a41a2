"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.consistency.settings import Consistency, with_width
from unequal.errors import UserError
from unequal.settings.condition import Unconditional
from unequal.settings.network import UNet2D
from unequal.settings.params.core import FRESH, Role
from unequal.settings.params.sections import Sampled


class Params(Sampled):
    """All sections, and what holds of several of them."""

    consistency: Consistency

    @property
    def roles(self) -> dict[str, Role]:
        """Every replica is trained as the base is."""
        return super().roles | {"base": FRESH}

    @model_validator(mode="after")
    def replicas_can_be_trained(self) -> Self:
        """Every width makes a network for the images, from fresh weights."""
        if not isinstance(self.network, UNet2D):
            raise ValueError(f"network.kind: {self.network.kind}; replicas of several widths are U-Nets: unet2d")
        for width in self.consistency.widths:
            try:
                with_width(self.network, width).attends(self.data.image_size)
            except (UserError, ValueError) as error:
                raise ValueError(f"consistency.widths: {error}") from None
        if not isinstance(self.network.condition, Unconditional):
            kind = self.network.condition.kind
            raise ValueError(f"network.condition.kind: {kind}; replicas make pictures of noise alone: none")
        if self.network.pretrained:
            raise ValueError(
                f"network.pretrained: '{self.network.pretrained}'; replicas start from fresh weights: null"
            )
        return self

    @model_validator(mode="after")
    def replicas_can_be_compared(self) -> Self:
        """Noise alone decides what a replica samples."""
        if self.sampling.eta:
            raise ValueError(
                f"sampling.eta: {self.sampling.eta}; consistency compares pictures of one noise, and needs 0"
            )
        timesteps, last = self.consistency.comparison.timesteps, self.schedule.timesteps - 1
        if timesteps[-1] > last:
            raise ValueError(
                f"consistency.comparison.timesteps: {timesteps[-1]} reaches beyond the last timestep {last}"
            )
        return self
