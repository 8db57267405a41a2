"""Settings of the study: replicas of the base by seeds and widths, and params.yaml as a whole."""

import re
from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, NonNegativeInt, ValidationError, model_validator

from unequal.comparison.settings import refuse_twice
from unequal.errors import UserError
from unequal.settings.condition import Unconditional
from unequal.settings.core import FRESH, Role
from unequal.settings.network import DiT, UNet2D
from unequal.settings.params import Sampled
from unequal.settings.strict import Strict
from unequal.settings.values import NUMBER, DrawCount, Seed, fitting

#: A transformer in the place of the U-Net: its width and its depth.
TRANSFORMER = f"dit-({NUMBER})-({NUMBER})"
#: Pixels of a transformer's patch, a side, and channels of its heads.
PATCH, HEAD = 2, 8
NetworkName = Annotated[
    str,
    *fitting(
        f"({NUMBER}(-{NUMBER}){{0,11}}|{TRANSFORMER})",
        "no network; allowed: channels of each resolution, as in 16-32, or a transformer's width and depth, dit-96-4",
    ),
]


class Comparison(Strict):
    """Noise and images for all models."""

    noises: DrawCount = Field(ge=2, description="pictures a model, sampled from the same start noises by all")
    images: DrawCount = Field(ge=2, description="held-out images that are noised and of which x0 is predicted")
    timesteps: tuple[NonNegativeInt, ...] = Field(min_length=1, description="at which it is predicted, rising")
    optimum: bool = Field(
        description="also compare with the optimal denoiser of the training images, in closed form; every "
        "step then compares with all of them"
    )

    @model_validator(mode="after")
    def timesteps_rise(self) -> Self:
        """They become an axis."""
        if any(after <= before for before, after in pairwise(self.timesteps)):
            raise ValueError(f"timesteps: {list(self.timesteps)} must rise strictly")
        return self


class Consistency(Strict):
    """Replicas of the base: every width, trained from every seed."""

    widths: tuple[NetworkName, ...] = Field(
        min_length=1,
        description="channels of each resolution, as in 16-32, which replace network.block_out_channels; or a "
        "transformer's width and depth, as in dit-96-4, which replaces the network",
    )
    seeds: tuple[Seed, ...] = Field(min_length=2, description="training seeds")
    comparison: Comparison

    @model_validator(mode="after")
    def replicas_differ(self) -> Self:
        """None of the models is made twice."""
        refuse_twice("widths", self.widths)
        refuse_twice("seeds", self.seeds)
        return self


def with_width(network: UNet2D, width: str) -> UNet2D | DiT:
    """The network with other channels, as in `16-32`, or a transformer of a width and a depth, as in `dit-96-4`.

    Raises UserError where there is no such network.
    """
    try:
        if found := re.fullmatch(TRANSFORMER, width):
            across, depth = map(int, found.groups())
            heads = 1 if across % HEAD else across // HEAD
            return DiT(kind="dit", pretrained=None, depth=depth, width=across, heads=heads, patch=PATCH)
        channels = tuple(map(int, width.split("-")))
        return UNet2D(**(network.model_dump() | {"block_out_channels": channels}))
    except ValidationError as error:
        raise UserError(f"width '{width}': {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None


def replica(width: str, seed: int) -> str:
    """The name of a model, its folder below `artifacts/models`."""
    return f"{width}/seed_{seed}"


class Params(Sampled):
    """All sections, and rules for several of them."""

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
                with_width(self.network, width).check_size(self.data.image_size)
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
