"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.few_steps.settings import Sweep
from unequal.settings.params.core import FRESH, Role
from unequal.settings.params.sections import Scored
from unequal.settings.profile import Profile


class Params(Scored):
    """A base a block; its samples by all ways are scored."""

    profile: Profile
    subject: str
    sweep: Sweep

    @property
    def roles(self) -> dict[str, Role]:
        """The base."""
        return super().roles | {"base": FRESH}

    @model_validator(mode="after")
    def blocks_begin_with_fresh_weights(self) -> Self:
        """A trained network has one set of weights, which would make all blocks one."""
        if self.network.pretrained is not None:
            raise ValueError(f"network.pretrained: '{self.network.pretrained}'; blocks begin with fresh weights: null")
        return self

    @model_validator(mode="after")
    def calls_fit_the_schedule(self) -> Self:
        """A step has a timestep of its own."""
        if (most := max(self.sweep.calls)) > self.schedule.timesteps:
            raise ValueError(f"sweep.calls: {most}; at most schedule.timesteps: {self.schedule.timesteps}")
        return self

    @model_validator(mode="after")
    def no_noise_is_added(self) -> Self:
        """Solvers of higher order follow the path without."""
        if self.sampling.eta:
            raise ValueError(f"sampling.eta: {self.sampling.eta:g}; solvers of higher order add no noise; allowed: 0.0")
        return self
