"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.contribution.settings import Contribution
from studies.grid.params import Gridded
from unequal.settings.condition import LowResolution


class Params(Gridded):
    """All sections, and what holds of several of them."""

    contribution: Contribution

    @model_validator(mode="after")
    def contribution_is_of_super_resolution(self) -> Self:
        """Only there is one right answer, which may replace a prediction."""
        self.contribution.fits(self.schedule.timesteps)
        if not isinstance(self.network.condition, LowResolution):
            kind = self.network.condition.kind
            raise ValueError(f"contribution: network.condition.kind: {kind}; allowed: low_resolution")
        return self
