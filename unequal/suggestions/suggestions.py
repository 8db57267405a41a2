"""All that a profile suggests, together: slots, a density, γ, the border of two experts, sampling steps."""

import math
from dataclasses import dataclass
from typing import Literal, Self, get_args

import numpy as np

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.diffusion.spacing import sampling_timesteps, spaced_timesteps
from unequal.errors import UserError
from unequal.measures.loss_profile import SPACES
from unequal.suggestions.boundary import Border, borders
from unequal.suggestions.density import Nearest, TwoLevels, nearest, relative_moment, total_variation, two_levels
from unequal.suggestions.gamma import EvenGamma, even_gamma
from unequal.timesteps.draws import equal_over
from unequal.timesteps.learning import least_variance
from unequal.timesteps.partition import Partition, equal_sums
from unequal.timesteps.samplers import uniform
from unequal.timesteps.weights import epsilon_error_factor

#: Spaces whose losses can be shared out among slots → the prediction whose squared error is meant.
LOSSES: dict[str, Prediction] = SPACES | {"velocity": "velocity"}
#: The densities that can be asked for.
Kind = Literal["least_variance", "slots"]
#: Over what the loss is shared out between two experts.
Halves = Literal["timesteps", "log_snr"]


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Attributes:
        slots: K.
        steps: n, of sampling.
        space: a key of `LOSSES`, whose sums the slots share.
        density: which one the named ones are to be near.
        halves: over what each of two experts gets half of the loss.
    """

    slots: int = 10
    steps: int = 20
    space: str = "epsilon"
    density: Kind = "least_variance"
    halves: Halves = "timesteps"


@dataclass(frozen=True)
class Measured:
    """What was measured, at every timestep.

    Attributes:
        schedule: of the model.
        prediction: of the network.
        losses: mean squared errors of ε, [T].
        second_moments: mean squares of the same over draws, [T].
        points: how many timesteps were measured; between them values are interpolated.
    """

    schedule: NoiseSchedule
    prediction: Prediction
    losses: np.ndarray
    second_moments: np.ndarray
    points: int

    @property
    def shift(self) -> float:
        """k of a flow's schedule; 1 of others."""
        return self.schedule.shift if isinstance(self.schedule, Flow) else 1.0

    def in_space(self, prediction: Prediction) -> np.ndarray:
        """Factor [T] from a squared error of ε to one of a prediction."""
        return 1 / epsilon_error_factor(prediction, self.schedule.snr).numpy()


@dataclass(frozen=True)
class Density:
    """A density, what weighting it back is worth, and what is near it.

    Attributes:
        kind: which one.
        probabilities: p_t, [T].
        moment: second moment of a draw's trained loss, weighted back, over that of uniform draws.
        from_uniform: total variation from uniform timesteps.
        nearest: logit-normal, shift, Beta.
        two_levels: one border, two levels.
    """

    kind: Kind
    probabilities: np.ndarray
    moment: float
    from_uniform: float
    nearest: list[Nearest]
    two_levels: TwoLevels


@dataclass(frozen=True)
class Suggestions:
    """Everything.

    Attributes:
        asked, measured: what they follow from.
        slots: of equal loss.
        density: that was asked for.
        gamma: of Min-SNR.
        borders: of two experts: by halves over timesteps, by halves over log-SNR, those of others.
        steps: timesteps of sampling by the profile, falling; fewer than asked for where some snap together.
        uniform_steps: the same number of uniform ones.
    """

    asked: Asked
    measured: Measured
    slots: Partition
    density: Density
    gamma: EvenGamma
    borders: list[Border]
    steps: list[int]
    uniform_steps: list[int]

    @property
    def border(self) -> Border:
        """The one that was asked for."""
        return self.borders[get_args(Halves).index(self.asked.halves)]

    @property
    def nearest(self) -> Nearest:
        """The named density that is nearest of all."""
        return min(self.density.nearest, key=lambda one: one.distance)

    @classmethod
    def of(cls, measured: Measured, asked: Asked) -> Self:
        """What follows. Raises UserError where more is asked for than was measured, or losses are beyond all bounds."""
        if asked.slots > measured.points:
            raise UserError(
                f"{asked.slots} slots from losses at {measured.points} timesteps; allowed: 2 … {measured.points}, "
                "or measure more timesteps"
            )
        losses, schedule = measured.losses, measured.schedule
        slots = equal_sums(losses * measured.in_space(LOSSES[asked.space]), asked.slots)
        uniform_steps = sampling_timesteps(asked.steps, schedule.timesteps)
        return cls(
            asked,
            measured,
            slots,
            density_of(measured, slots, asked.density),
            even_gamma(losses, schedule),
            borders(losses, schedule),
            spaced_timesteps(asked.steps, schedule, "rescaled_profile", losses),
            uniform_steps,
        )


def density_of(measured: Measured, slots: Partition, kind: Kind) -> Density:
    """The density of least variance of the loss that is trained, the network's own, or that of stratified draws."""
    moments = measured.second_moments * measured.in_space(measured.prediction) ** 2
    alike = uniform(len(moments))
    if not math.isfinite(float(moments.max()) * len(moments)) or not (moments > 0).all():
        raise UserError(f"second moments of losses from {moments.min():.3g} to {moments.max():.3g} give no density")
    p = equal_over(slots) if kind == "slots" else least_variance(alike, moments)
    found = nearest(p, measured.schedule)
    return Density(kind, p, relative_moment(p, moments), total_variation(p, alike), found, two_levels(p))
