"""`pruning`: methods by which a network is brought under a limit of FLOPs, each under a name."""

from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from unequal.settings.strict import Strict

#: Whose timesteps count: those of the pruned model's range alone, or all.
Timesteps = Literal["group", "all"]


class Random(Strict):
    """Channels are drawn."""

    method: Literal["random"]


class Magnitude(Strict):
    """The smallest weights go first."""

    method: Literal["magnitude"]


class Taylor(Strict):
    """|w·∂L/∂w| of one batch."""

    method: Literal["taylor"]
    timesteps: Timesteps = Field(description="drawn uniformly from the group's, or from all")
    images: PositiveInt = Field(description="of the batch")


class DiffPruning(Strict):
    """|w·Σ_t ∂L_t/∂w| over rising timesteps, as long as their loss is of weight (2305.10924)."""

    method: Literal["diff_pruning"]
    timesteps: Timesteps = Field(description="the group's, or all")
    images: PositiveInt = Field(description="at each timestep")
    threshold: float = Field(gt=0, lt=1, description="share of the largest loss so far under which the sum ends")


#: One way of pruning.
Pruning = Annotated[Random | Magnitude | Taylor | DiffPruning, Field(discriminator="method")]


class BasePruning(Strict):
    """The base pruned for all its timesteps, by several methods: pruning alone (paper 3, Table V)."""

    ratio: float = Field(gt=0, le=1, description="the limit as a share of the base's FLOPs; the paper takes 0.7")
    methods: tuple[str, ...] = Field(min_length=1, description="names under `pruning`, each an instance")
