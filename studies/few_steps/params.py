"""Settings of the study: ways of taking few sampling steps, with equal calls of the network."""

import re
from typing import Self, get_args

from pydantic import Field, model_validator

from unequal.comparison.settings import Comparison, refuse_twice
from unequal.settings.core import FRESH, Role
from unequal.settings.evaluation import Profile, Sampling, Spacing
from unequal.settings.params import Scored

SOLVERS = ("ddim", "heun", "dpm_solver_2m")
#: A solver, how its steps are spread over the timesteps, and `again` for the same from other noise.
WAY = re.compile(f"({'|'.join(SOLVERS)})_({'|'.join(get_args(Spacing))})(_again)?")


def sampling_of(way: str, common: Sampling, calls: int) -> Sampling:
    """Sampling by a way, such as `ddim_edm`, with this number of calls of the network; all else is as in `common`."""
    known = WAY.fullmatch(way)
    assert known is not None
    steps = (calls + 1) // 2 if known[1] == "heun" else calls  # Heun's N steps take 2N − 1
    changes = {"steps": steps, "solver": known[1], "spacing": known[2]}
    return Sampling.model_validate(common.model_dump() | changes)


class Params(Scored):
    """A base a block; its samples by all ways are scored."""

    profile: Profile
    comparison: Comparison
    calls: tuple[int, ...] = Field(min_length=1, description="of the network for a sample; odd, from 3")

    @property
    def roles(self) -> dict[str, Role]:
        """The base."""
        return super().roles | {"base": FRESH}

    @model_validator(mode="after")
    def bases_can_be_sampled(self) -> Self:
        """Blocks begin with fresh weights, each step has a timestep of its own, and solvers follow a path."""
        refuse_twice("calls", self.calls)
        for calls in self.calls:
            if calls < 3 or not calls % 2:
                raise ValueError(f"calls: {calls}; Heun's N steps take 2N − 1; allowed: odd numbers from 3")
        if unknown := [way for way in self.comparison.arms.all if not WAY.fullmatch(way)]:
            raise ValueError(f"comparison.arms: '{unknown[0]}'; allowed: a solver and a spacing, as in ddim_edm")
        if (most := max(self.calls)) > self.schedule.timesteps:
            raise ValueError(f"calls: {most}; at most schedule.timesteps: {self.schedule.timesteps}")
        if self.network.pretrained is not None:
            raise ValueError(f"network.pretrained: '{self.network.pretrained}'; blocks begin with fresh weights: null")
        if self.sampling.eta:
            raise ValueError(f"sampling.eta: {self.sampling.eta:g}; solvers of higher order add no noise; allowed: 0.0")
        return self
