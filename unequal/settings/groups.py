"""`groups`: timesteps grouped, each group with a limit of FLOPs (TDC training)."""

from typing import Self

from pydantic import Field, NonNegativeInt, model_validator

from unequal.settings.strict import Strict
from unequal.timesteps.groups import BY_EXCESS, Grouping


class Groups(Strict):
    """The groups from the data end (0) to the noise end."""

    ids: tuple[NonNegativeInt, ...] = Field(min_length=1, description="0, 1, … N−1; N is the number of groups")
    kind: Grouping = Field(
        description="by SNR with rising limits of FLOPs or one constant limit; of equal size with limits that rise or "
        "fall towards the noise; of equal excess loss, the highest limit where the mean excess is highest; or clusters "
        "of the least spread in t or in log-SNR, with one constant limit"
    )
    min_ratio: float = Field(gt=0, le=1, description="k: the smallest model's FLOPs as a share of the base's")

    @property
    def needs_excess(self) -> bool:
        """Whether the base's excess loss, and with it a floor, has to be known."""
        return self.kind in BY_EXCESS

    @model_validator(mode="after")
    def ids_count_up(self) -> Self:
        """The list exists so that pipelines can fan out over it; it says nothing but N."""
        if self.ids != tuple(range(len(self.ids))):
            raise ValueError(f"ids: {list(self.ids)} must count 0, 1, 2 … without a gap")
        return self
