"""Specification of a model apart from its network: all that training, measuring and sampling need to know."""

# ruff: noqa: E402

from unequal.errors import needs

needs(__name__, "pipeline", "pydantic")

from typing import Self

from pydantic import PositiveInt

from unequal.data.prepared import PreparedData
from unequal.diffusion.predictions import HEADS, HEADS_OF_FLOW, ModelPrediction, check_prediction
from unequal.diffusion.schedule import NoiseSchedule, noise_schedule
from unequal.errors import UserError
from unequal.models.conditions import Condition, condition_of
from unequal.settings.condition import AnyCondition
from unequal.settings.network import Network, Variance
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict


class Space(Strict):
    """Space of a model: square images of so many channels, or the latents of the autoencoder of that hash."""

    channels: PositiveInt
    size: PositiveInt
    autoencoder: str | None = None

    @classmethod
    def of(cls, data: PreparedData) -> Self:
        channels, size, _ = data.images.shape[1:]
        return cls(channels=channels, size=size, autoencoder=data.facts["autoencoder"])

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.channels, self.size, self.size


class ModelSpec(Strict):
    """Inputs and outputs of a network.

    Attributes:
        prediction: what it answers; `mixed` stands for the three HEADS, one behind the other.
        schedule: of the noise in what it is asked.
        condition: its input besides the noisy image and its timestep.
        variance: `learned` where as many further channels say the variance of a step.
        space: of its images.
    """

    prediction: ModelPrediction
    schedule: Schedule
    condition: AnyCondition
    variance: Variance
    space: Space

    @classmethod
    def of(cls, network: Network, schedule: Schedule, prediction: ModelPrediction, space: Space) -> Self:
        """The spec of a model that the settings describe. Three heads learn no variance."""
        return cls(
            prediction=prediction,
            schedule=schedule,
            condition=network.condition,
            variance="fixed" if prediction == "mixed" else network.variance,
            space=space,
        )

    def noise_schedule(self) -> NoiseSchedule:
        """The schedule as tables. Raises UserError where prediction or variance have no meaning on it."""
        schedule = noise_schedule(self.schedule)
        check_prediction(self.prediction, schedule, self.variance == "learned")
        return schedule

    def check_images(self, data: PreparedData, model: str) -> None:
        """Raise UserError where a prepared data set has other images than a model of that name works on."""
        if (shape := Space.of(data).shape) != self.space.shape:
            ours, theirs = list(self.space.shape), list(shape)
            raise UserError(f"'{model}' works on images of shape {ours}, not {theirs} as in {data.path}; make it again")

    @property
    def conditioning(self) -> Condition:
        """The condition as batches and networks use it."""
        return condition_of(self.condition)

    @property
    def timesteps(self) -> int:
        return self.schedule.timesteps

    @property
    def heads(self) -> tuple[str, ...]:
        """Prediction of each head of the network."""
        three = HEADS_OF_FLOW if self.schedule.name == "flow" else HEADS
        return three if self.prediction == "mixed" else (self.prediction,)

    @property
    def input_channels(self) -> int:
        return self.conditioning.input_channels(self.space.channels)

    @property
    def output_channels(self) -> int:
        return self.space.channels * (2 if self.variance == "learned" else len(self.heads))
