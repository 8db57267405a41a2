"""The whole of the study's params.yaml."""

from typing import Self

from pydantic import model_validator

from studies.grid.params import Gridded
from studies.time_to_quality.settings import TimeToQuality
from unequal.settings.params.scored import Scored


class Params(Gridded, Scored):
    """All sections, and what holds of several of them."""

    time_to_quality: TimeToQuality

    @model_validator(mode="after")
    def baselines_are_trained(self) -> Self:
        """A recipe is compared with another of the grid, over as many images."""
        for field in ("baselines", "rivals"):
            for name, baseline in getattr(self.time_to_quality, field).items():
                for one in (name, baseline):
                    if one not in self.grid.recipes:
                        raise ValueError(f"time_to_quality.{field}: '{one}' is no recipe of the grid")
                if name == baseline or self.recipes[name].images != self.recipes[baseline].images:
                    raise ValueError(
                        f"time_to_quality.{field}: '{name}' and '{baseline}' must be two recipes with the same images"
                    )
        return self
