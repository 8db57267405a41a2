"""Which timesteps a training batch is made of.

A sampler returns timesteps *and* importance weights. Its draws depend on the generator that it is
handed and on what it has learned, so that a batch is a pure function of seed, step and state; the
state of the samplers that learn is in `state_dict`, which the checkpoint holds.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.curricula import Changing
from unequal.timesteps.learning import BinMoments, LossHistory, Patience
from unequal.timesteps.partition import Partition, TimestepSet, check_losses

#: Timesteps [n] → squared norms ‖g‖² [n] of the gradients of single images at them.
Measure = Callable[[np.ndarray], np.ndarray]
#: Which images of a step [n], timesteps [n] → their losses [n] by the network as it is, before importance weights.
LossesAt = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class TimestepBatch:
    """Timesteps [B] (int64) and the factors [B] (float64) by which their losses are multiplied."""

    timesteps: np.ndarray
    weights: np.ndarray


class TimestepSampler(ABC):
    """Draws batches of timesteps with marginal probabilities p_t, which may change with the images trained on."""

    #: Images after which the probabilities change no more.
    horizon = 0
    #: Whether it learns from losses: only then are they read back from the device.
    learns = False
    #: Whether the training decides p_t, and not the settings.
    density_learned = False
    #: Images that are trained on between two of its measurements, and images that one takes; 0: it measures nothing.
    refresh_images = 0
    measured_images = 0
    #: Whether it draws by the images, and compares their losses before and after some steps.
    sees_images = False
    #: Losses of ε by which the loss weight is to be normalised, [T]; None: it is not.
    known_loss: np.ndarray | None = None

    def __init__(self, probabilities: np.ndarray, unbiased: bool = False) -> None:
        """
        Args:
            probabilities: [T], p_t of one draw, summing to 1; where they change, those at the end.
            unbiased: weight losses by (1/T)/p_t, which makes the expected gradient the uniform one.

        Raises:
            UserError: unbiased, where some p_t is 0.
        """
        if unbiased and not (probabilities > 0).all():
            t = int(np.argmin(probabilities))
            raise UserError(f"unbiased: true cannot be had where p = 0, as at t = {t}; set it to false")
        self.probabilities = probabilities
        self.unbiased = unbiased

    def at(self, images_trained: int) -> np.ndarray:
        """p_t [T] after so many images trained on; images that a sampler has measured do not count here."""
        return self.probabilities

    def importance(self, images_trained: int = 0) -> np.ndarray:
        """Factor [T] for the loss of each timestep: (1/T)/p_t, or 1."""
        probabilities = self.at(images_trained)
        return 1 / (len(probabilities) * probabilities) if self.unbiased else np.ones(len(probabilities))

    def cost(self, batch_size: int) -> int:
        """Images of training that one of its measurements takes as long as."""
        return self.measured_images

    def sample(
        self,
        batch_size: int,
        generator: np.random.Generator,
        images_trained: int = 0,
        images: Callable[[], Tensor] | None = None,
    ) -> TimestepBatch:
        """Draw one batch; `images` gives those that it is for, [B, C, H, W] on the CPU, to a sampler that sees them."""
        timesteps = self.draw(batch_size, generator, self.at(images_trained))
        return TimestepBatch(timesteps, self.importance(images_trained)[timesteps])

    @abstractmethod
    def draw(self, batch_size: int, generator: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        """Timesteps [B], int64."""

    def over_training(self) -> list[np.ndarray]:
        """p_t at the start, at each quarter of the change, and at its end; once, where nothing changes."""
        return [self.at(self.horizon * quarter // 4) for quarter in range(5)] if self.horizon else [self.probabilities]

    def set_loss_weights(self, weights: np.ndarray) -> None:  # noqa: B027 (nothing to do for most)
        """Take in what a squared error of ε counts in the losses of a training, [T], before it begins."""

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:  # noqa: B027 (nothing to do for most)
        """Take in the losses [B] of a batch, at its timesteps [B], before importance weights."""

    def refresh(self, measure: Measure, generator: np.random.Generator) -> None:  # noqa: B027 (as above)
        """Measure gradients of `measured_images` single images."""

    def before_step(self, losses: LossesAt, batch_size: int, generator: np.random.Generator) -> None:  # noqa: B027
        """Measure losses of a step's images before it, where a sampler sees them; see `after_step`."""

    def after_step(self, losses: LossesAt, images: Tensor, timesteps: np.ndarray) -> None:  # noqa: B027 (as above)
        """Measure the same after it, and learn from both; the step was at timesteps [B] of its images [B, C, H, W]."""

    def state_dict(self) -> dict[str, Any]:
        """What a sampler has learned, as JSON can carry it; most learn nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 (nothing to do for most)
        """Go on from a saved state."""


class IndependentSampler(TimestepSampler):
    """Every timestep of a batch is drawn from p_t on its own."""

    def draw(self, batch_size: int, generator: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        return generator.choice(len(probabilities), size=batch_size, p=probabilities)


class ChangingSampler(IndependentSampler):
    """Independent draws from probabilities that are a function of the images trained on, and so need no state."""

    def __init__(self, changing: Changing, unbiased: bool = False) -> None:
        super().__init__(changing.at(changing.horizon), unbiased)
        self.changing = changing
        self.horizon = changing.horizon

    def at(self, images_trained: int) -> np.ndarray:
        return self.changing.at(images_trained)


class MirroredSampler(TimestepSampler):
    """Timesteps in pairs, one drawn and the other its mirror image (SpeeD, 2405.17403); see `curricula.mirror`.

    p_t is that of a batch's timesteps, drawn and mirrored ones alike: on the linear schedule SpeeD's 5 : 1 below
    0.7·T become 10.4 : 1.

    Args:
        drawn: probabilities [T] of the first of a pair.
        mirror: the second one's timestep for each of the first's, [T].
        unbiased: as for all.
    """

    def __init__(self, drawn: np.ndarray, mirror: np.ndarray, unbiased: bool = False) -> None:
        mirrored = np.bincount(mirror, weights=drawn, minlength=len(drawn))
        super().__init__((drawn + mirrored) / 2, unbiased)
        self.drawn, self.mirror = drawn, mirror

    def draw(self, batch_size: int, generator: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        first = generator.choice(len(self.drawn), size=-(-batch_size // 2), p=self.drawn)
        # Shuffled, so that of an odd batch either half may be the smaller one.
        return generator.permutation(np.concatenate([first, self.mirror[first]]))[:batch_size]


class LowDiscrepancySampler(TimestepSampler):
    """One uniform offset and equally spaced points, read through the inverse of p's sum (VDM, 2107.00630)."""

    def draw(self, batch_size: int, generator: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        points = (generator.random() + np.arange(batch_size)) / batch_size % 1
        found = np.searchsorted(np.cumsum(probabilities), points, side="right")
        return generator.permutation(np.minimum(found, len(probabilities) - 1))


class StratifiedSampler(TimestepSampler):
    """The same number of timesteps from each slot, uniform within it (paper 1's conclusion).

    Where the batch is no multiple of the number of slots, the remainder goes to slots drawn without
    replacement, so that over batches every slot gets its share.
    """

    def __init__(self, slots: Partition, unbiased: bool = False) -> None:
        super().__init__(np.repeat(1 / (len(slots) * slots.lengths), slots.lengths), unbiased)
        self.slots = slots

    def draw(self, batch_size: int, generator: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
        count = len(self.slots)
        whole, rest = divmod(batch_size, count)
        chosen = np.concatenate([np.repeat(np.arange(count), whole), generator.permutation(count)[:rest]])
        return self.slots.draw(generator.permutation(chosen), generator)


class LossSecondMomentSampler(IndependentSampler):
    """p ∝ √E[L²] over the last losses of each timestep (improved-diffusion); see `LossHistory`."""

    learns = density_learned = True

    def __init__(
        self,
        timesteps: int,
        *,
        history: int,
        uniform_share: float,
        unbiased: bool,
        known: np.ndarray | None = None,
    ) -> None:
        """`known` are losses [T, n] to begin with, so that nothing is waited for."""
        super().__init__(uniform(timesteps), unbiased)
        self.history = LossHistory(timesteps, history, uniform_share)
        for draw in known.T if known is not None else ():
            self.learn(np.arange(timesteps), draw)

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        self.history.record(timesteps, losses)
        self.probabilities = self.history.probabilities

    def state_dict(self) -> dict[str, Any]:
        return self.history.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.history.load_state_dict(state)
        self.probabilities = self.history.probabilities


class EasyToHardSampler(IndependentSampler):
    """The difficulty curriculum (2403.10348): the cluster at the noise end, then one harder after another, at last all.

    Within those that are open every timestep is alike. Losses decide when the next one is opened; see `Patience`.

    Args:
        clusters: of the timesteps; the paper takes 20.
        patience_images: without a lower loss, after which the next one is opened.
    """

    learns = True

    def __init__(self, clusters: Partition, patience_images: int) -> None:
        self.patience = Patience(len(clusters), patience_images)
        self.difficulty = len(clusters) - 1 - clusters.members
        super().__init__(self.opened(0))

    def opened(self, stage: int) -> np.ndarray:
        """p_t [T] in a stage, counted from 0."""
        return normalised((self.difficulty <= stage) * 1.0)

    def over_training(self) -> list[np.ndarray]:
        """p_t in the first stage, at each quarter of the stages, and in the last, whenever that may be."""
        last = self.patience.stages - 1
        return [self.opened(last * quarter // 4) for quarter in range(5)] if last else [self.probabilities]

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        self.patience.record(losses)
        self.probabilities = self.opened(self.patience.stage)

    def state_dict(self) -> dict[str, Any]:
        return self.patience.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.patience.load_state_dict(state)
        self.probabilities = self.opened(self.patience.stage)


class AdaptiveSampler(LowDiscrepancySampler):
    """Bins of timesteps by the length of their gradients, in evenly spread batches, without bias.

    The criterion is the variance of the gradient per image: p_k ∝ s_k·√E‖g_k‖² has the least of all
    distributions over bins, see `least_variance`, and losses are weighted by (1/T)/p_t. Batches are drawn by
    one offset and equal spaces, so that each bin is drawn ⌊B·p_k⌋ or ⌈B·p_k⌉ times, which takes away most of
    what is left of the variance between bins. Clipping and Adam's scaling come after this gradient: the least
    variance need not be the fastest training.

    Args:
        bins: of the timesteps.
        refresh_images: images trained on between two measurements; the first is made before training.
        images_per_bin: single gradients a bin and measurement.
        memory: share of the earlier estimate that a measurement leaves, in [0, 1).
        uniform_share: of uniform timesteps in the mix; above 0, it bounds weights by 1/uniform_share.
    """

    density_learned = True

    def __init__(
        self,
        bins: Partition,
        *,
        refresh_images: int,
        images_per_bin: int,
        memory: float,
        uniform_share: float,
    ) -> None:
        if refresh_images < 1 or images_per_bin < 1 or not 0 < uniform_share <= 1:
            raise UserError(
                f"{images_per_bin} images a bin every {refresh_images} with a uniform share of {uniform_share}; "
                "allowed: from 1, from 1, above 0 and at most 1"
            )
        self.moments = BinMoments(bins, memory)
        self.uniform_share = uniform_share
        super().__init__(self.moments.probabilities(uniform_share), unbiased=True)
        self.refresh_images = refresh_images
        self.images_per_bin = images_per_bin
        self.measured_images = images_per_bin * len(bins)

    def refresh(self, measure: Measure, generator: np.random.Generator) -> None:
        self.moments.record(measure(self.moments.draw(self.images_per_bin, generator)))
        self.probabilities = self.moments.probabilities(self.uniform_share)

    def state_dict(self) -> dict[str, Any]:
        return self.moments.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.moments.load_state_dict(state)
        self.probabilities = self.moments.probabilities(self.uniform_share)


def uniform(timesteps: int) -> np.ndarray:
    """p_t = 1/T."""
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
    if not np.isfinite(weights).all() or (weights < 0).any() or total <= 0:
        raise UserError("timestep weights must be finite, not negative and not all 0")
    return weights / total


def of_length(profile: np.ndarray, timesteps: int) -> np.ndarray:
    """Losses [T] or [T, n], finite and not negative, or UserError."""
    if len(profile) != timesteps:
        raise UserError(f"the profile has {len(profile)} timesteps, the model {timesteps}")
    check_losses(profile if profile.ndim == 1 else profile.sum(1))
    return profile
