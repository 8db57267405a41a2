"""Timestep samplers: a density over timesteps, a way to draw a batch from it, and weights of the losses.

A sampler returns timesteps *and* importance weights. Its draws depend on the numbers that it gets and on what it has
learned, so that a batch is a pure function of seed, step and state; the state of the samplers that learn is in
`state_dict`, which the checkpoint holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.densities import Changing
from unequal.timesteps.draws import Independent
from unequal.timesteps.partition import TimestepSet, check_density, check_losses

#: Timesteps [n] → squared norms ‖g‖² [n] of the gradients of single images at them.
Measure = Callable[[np.ndarray], np.ndarray]
INDEPENDENT = Independent()


@dataclass(frozen=True)
class TimestepBatch:
    """Timesteps [B] (int64) and the factors [B] (float64) by which their losses are multiplied."""

    timesteps: np.ndarray
    weights: np.ndarray


class TimestepSampler:
    """Draws batches of timesteps from a density, which may change with the images trained on."""

    #: Images after which the density changes no more.
    horizon = 0
    #: Whether it learns from losses: only then are they read back from the device.
    learns = False
    #: Whether the training decides the density, and not the settings.
    density_learned = False
    #: Images trained on between two of its measurements, and images that one takes; 0: it measures nothing.
    refresh_images = 0
    measured_images = 0
    #: Losses of ε by which the loss weight is to be normalised, [T]; None: it is not.
    known_loss: np.ndarray | None = None

    def __init__(self, density: np.ndarray, unbiased: bool = False, draw: Independent = INDEPENDENT) -> None:
        """
        Args:
            density: probabilities [T], summing to 1; where they change, those at the end.
            unbiased: weight losses by (1/T)/p_t, which makes the expected gradient the uniform one.
            draw: how a batch is drawn from the density.

        Raises:
            UserError: no probabilities, or no draw of them; unbiased, where some p_t is 0.
        """
        self.density, self.unbiased, self.draw = check_density(density), unbiased, draw
        if not isinstance(draw, Independent):
            allowed = "Independent(), LowDiscrepancy(), Stratified(parts), Mirrored(mirror)"
            raise UserError(f"draw: {draw!r}; allowed: {allowed}")
        draw.check(len(density))
        if unbiased and not (self.probabilities > 0).all():
            t = int(np.argmin(self.probabilities))
            raise UserError(f"unbiased: true cannot be had where p = 0, as at t = {t}; set it to false")

    @property
    def probabilities(self) -> np.ndarray:
        """p_t [T] of any place in a batch; where it changes, as it is now or at the end."""
        return self.draw.marginal(self.density)

    def density_at(self, images_trained: int) -> np.ndarray:
        """The density [T] after so many images trained on; images that a sampler has measured do not count here."""
        return self.density

    def at(self, images_trained: int) -> np.ndarray:
        """p_t [T] after so many images trained on."""
        return self.draw.marginal(self.density_at(images_trained))

    def importance(self, images_trained: int = 0) -> np.ndarray:
        """Factor [T] for the loss of each timestep: (1/T)/p_t, or 1."""
        probabilities = self.at(images_trained)
        return 1 / (len(probabilities) * probabilities) if self.unbiased else np.ones(len(probabilities))

    def sample(self, uniforms: np.ndarray, images_trained: int = 0) -> TimestepBatch:
        """A batch by uniform numbers [4, B] in [0, 1), after so many images trained on. Raises UserError for others."""
        if uniforms.ndim != 2 or len(uniforms) != 4 or not ((uniforms >= 0) & (uniforms < 1)).all():
            raise UserError(f"draws by numbers of shape {list(uniforms.shape)}; allowed: [4, B], in [0, 1)")
        timesteps = self.draw(uniforms, self.density_at(images_trained))
        return TimestepBatch(timesteps, self.importance(images_trained)[timesteps])

    def over_training(self) -> list[np.ndarray]:
        """p_t at the start, at each quarter of the change, and at its end; once, where nothing changes."""
        return [self.at(self.horizon * quarter // 4) for quarter in range(5)] if self.horizon else [self.probabilities]

    def set_loss_weights(self, weights: np.ndarray) -> None:
        """Take in what a squared error of ε counts in the losses of a training, [T], before it begins."""

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        """Take in the losses [B] of a batch, at its timesteps [B], before importance weights."""

    def refresh(self, measure: Measure, uniform: np.ndarray) -> None:
        """Measure gradients of single images, of which uniform numbers [measured_images] choose the timesteps."""

    def state_dict(self) -> dict[str, Any]:
        """Learned state, as JSON can carry it; most learn nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state. Raises UserError where it is another sampler's."""
        self.check_state(state)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raise UserError where a state has other names than this sampler's, or tables of another size."""
        own, what = self.state_dict(), f"the state of another sampler than {type(self).__name__}"
        if not isinstance(state, dict) or state.keys() != own.keys():
            found = ", ".join(map(str, state)) or "nothing"
            raise UserError(f"{what}: it holds {found}; allowed: {', '.join(own) or 'nothing'}")
        for name, value in own.items():
            if isinstance(value, list) and np.shape(state[name]) != np.shape(value):
                raise UserError(f"{what}: '{name}' of shape {np.shape(state[name])}; allowed: {np.shape(value)}")


class ChangingSampler(TimestepSampler):
    """A density that is a function of the images trained on, and so needs no state."""

    def __init__(self, changing: Changing, unbiased: bool = False, draw: Independent = INDEPENDENT) -> None:
        super().__init__(changing.at(changing.horizon), unbiased, draw)
        self.changing = changing
        self.horizon = changing.horizon

    def density_at(self, images_trained: int) -> np.ndarray:
        return self.changing.at(images_trained)


class WeightedSampler(TimestepSampler):
    """Uniform draws, whose losses are weighted by a density: the gradient of unweighted draws from it, in the mean.

    Args:
        target: [T], p_t, summing to 1.
    """

    def __init__(self, target: np.ndarray) -> None:
        super().__init__(uniform(len(check_density(target))))
        self.target = target

    def importance(self, images_trained: int = 0) -> np.ndarray:
        """T·p_t [T], whose mean is 1."""
        return len(self.target) * self.target


def uniform(timesteps: int) -> np.ndarray:
    """p_t = 1/T. Raises UserError without a timestep."""
    if timesteps < 1:
        raise UserError(f"{timesteps} timesteps; allowed: from 1")
    return np.full(timesteps, 1 / timesteps)


def tilt(timesteps: int, power: float) -> np.ndarray:
    """Weights ((t + ½)/T)^a [T]: more near the noise; in their mirror image, `[::-1]`, more near the data."""
    return ((np.arange(timesteps) + 0.5) / timesteps) ** power


def within(chosen: TimestepSet, timesteps: int) -> np.ndarray:
    """Uniform over some timesteps, 0 elsewhere. Raises UserError where they are no range within 0 … T−1."""
    if not 0 <= chosen.first <= chosen.last < timesteps:
        raise UserError(f"timesteps {chosen.first} … {chosen.last} are no range within 0 … {timesteps - 1}")
    weights = np.zeros(timesteps)
    weights[chosen.slice] = 1
    return normalised(weights)


def even_over_log_snr(probabilities: np.ndarray, schedule: NoiseSchedule, intervals: int) -> np.ndarray:
    """Probabilities [T] of which each of N intervals of equal log-SNR has as much, between the outermost ones drawn.

    Raises UserError where there is an interval without one.
    """
    drawn, fall = probabilities > 0, -schedule.snr_db.cpu().numpy()
    first, last = fall[drawn][[0, -1]]
    interval = np.searchsorted(np.linspace(first, last, intervals + 1)[1:-1], fall)
    each = np.bincount(interval[drawn], probabilities[drawn], minlength=intervals)
    if not each.all():
        raise UserError(
            f"sampler.intervals: {intervals} of equal log-SNR, of which number {int(each.argmin()) + 1} from the data "
            f"end has no timestep on schedule '{schedule.name}'; use fewer"
        )
    return np.where(drawn, probabilities / (intervals * each[interval]), 0)


def normalised(weights: np.ndarray) -> np.ndarray:
    """Weights as probabilities. Raises UserError where they are none."""
    total = weights.sum()
    if not np.isfinite(weights).all() or not np.isfinite(total) or (weights < 0).any() or total <= 0:
        raise UserError("timestep weights must be finite, not negative and not all 0")
    return weights / total


def of_length(profile: np.ndarray, timesteps: int) -> np.ndarray:
    """Losses [T] or [T, n], finite and not negative, or UserError."""
    if len(profile) != timesteps:
        raise UserError(f"the profile has {len(profile)} timesteps, the model {timesteps}")
    check_losses(profile if profile.ndim == 1 else profile.sum(1))
    return profile
