"""InfoNoise (2602.18647): timesteps by how much a network learns of the image there, by its own losses.

By I-MMSE the information of an observation is dI = ½·L dλ, in nats a value, where λ = ln SNR and L is the squared
error of ε by the best denoiser. Draws from p, of which each error of x0 is weighted by w, put p·w on a timestep. So
much shall be ½·L_t·|Δλ_t|, times a gate r³/(r³ + c³), r = σ/α: without it what there is for each r, m/r³
with m = L·r² the error of x0, would go on rising to the data end, where there is nothing left to decide.
"""

from typing import Any

import numpy as np

from unequal.timesteps.draws import Independent
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import INDEPENDENT, TimestepSampler, normalised, uniform

#: The gate lies where m/r³ has come down to this share of its highest value.
ONSET_SHARE = 0.002


def information(losses: np.ndarray, log_snr: np.ndarray) -> np.ndarray:
    """Information of each timestep about an image by the trapezoidal rule, ½·L_t·|Δλ_t| in nats a value, [T].

    Args:
        losses: L_t, squared errors of ε, [T].
        log_snr: λ_t, falling, [T].
    """
    middles = (log_snr[1:] + log_snr[:-1]) / 2
    return losses * -np.diff(np.concatenate([log_snr[:1], middles, log_snr[-1:]])) / 2


def onset(losses: np.ndarray, ratio: np.ndarray) -> float:
    """c: the largest r = σ/α [T] at which m/r³ is ONSET_SHARE of its highest value; m = L·r², so that is L/r."""
    rate = losses / ratio
    return float(ratio[rate >= ONSET_SHARE * rate.max()].max())


class InfoNoiseSampler(TimestepSampler):
    """p·w ∝ ½·L_t·|Δλ_t|·r³/(r³ + c³), the losses L_t being those of the training so far; uniform until it is warm.

    After every batch it is computed anew, from running means in bins and the line through them. Uniform timesteps
    in the mix, which keep all means known, are weighted so that p·w stays what it is. A loss counts half after so many
    further ones of its bin, so that what is seldom drawn is not forgotten sooner.

    Args:
        log_snr: λ_t of the schedule, falling, [T].
        bins: of the timesteps, in which losses are averaged.
        half_life: of a loss, in losses of its bin.
        warmup_images: images trained on with uniform timesteps at first.
        uniform_share: of uniform timesteps in the mix, in [0, 1).
        onset: c; None: by the losses, see `onset`.
    """

    learns = density_learned = True

    def __init__(
        self,
        log_snr: np.ndarray,
        bins: Partition,
        *,
        half_life: int,
        warmup_images: int,
        uniform_share: float,
        onset: float | None = None,
        draw: Independent = INDEPENDENT,
    ) -> None:
        super().__init__(uniform(len(log_snr)), draw=draw)
        self.log_snr, self.bins, self.half_life, self.warmup_images = log_snr, bins, half_life, warmup_images
        self.uniform_share, self.onset = uniform_share, onset
        self.images, self.counts, self.sums = 0, np.zeros(len(bins)), np.zeros(len(bins))
        self.target = self.density
        #: Weight of a squared error of ε in the training losses, [T].
        self.weights = np.ones(len(log_snr))

    def set_loss_weights(self, weights: np.ndarray) -> None:
        self.weights = weights

    def importance(self, images_trained: int = 0) -> np.ndarray:
        return self.target / self.density

    def learn(self, timesteps: np.ndarray, losses: np.ndarray) -> None:
        """Take in the losses of a batch; what is no number is left out, as training stops on it."""
        found = losses / self.weights[timesteps]
        self.images += len(found)
        known = np.isfinite(found)
        members = self.bins.members[timesteps[known]]
        counts = np.bincount(members, minlength=len(self.bins))
        kept = 0.5 ** (counts / self.half_life)
        self.counts = kept * self.counts + counts
        self.sums = kept * self.sums + np.bincount(members, found[known], len(self.bins))
        self.rebuild()

    def losses(self) -> np.ndarray:
        """Losses [T] by the line through the bins' means over −λ; 0 before the first loss.

        A mean stands at its bin's mean place; beyond the outermost ones, losses are as these.
        """
        seen = self.counts > 0
        if not seen.any():
            return np.zeros(len(self.log_snr))
        places = self.bins.sums(-self.log_snr) / self.bins.lengths
        return np.interp(-self.log_snr, places[seen], self.sums[seen] / self.counts[seen])

    def rebuild(self) -> None:
        if self.images < self.warmup_images:
            return
        losses, ratio = self.losses(), np.exp(-self.log_snr / 2)
        if not losses.any():
            return
        edge = self.onset or onset(losses, ratio)
        # Of x0 an error counts SNR times as much as the same one of ε, so that 1/w is r² over the weight of ε.
        gated = information(losses, self.log_snr) / (1 + (edge / ratio) ** 3)
        self.target = normalised(gated * ratio**2 / self.weights)
        share = self.uniform_share
        self.density = share / len(self.target) + (1 - share) * self.target

    def state_dict(self) -> dict[str, Any]:
        return {"images": self.images, "counts": self.counts.tolist(), "sums": self.sums.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.check_state(state)
        self.images, self.counts, self.sums = state["images"], np.array(state["counts"]), np.array(state["sums"])
        self.rebuild()
