"""AdaTS (2411.09998): timesteps by a policy that sees the image, and learns from what training steps have brought.

Every so often the variational bound is measured before and after a step. What it has fallen by is the reward of the
timesteps at which that step has trained (REINFORCE); that of all T being too dear for every image of the batch, it is
summed over the few timesteps that have told most of the whole in earlier steps.
"""

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Beta
from torch.nn.functional import softplus

from unequal.errors import UserError
from unequal.timesteps.samplers import IndependentSampler, LossesAt, TimestepBatch, uniform

#: Channels of the policy's two layers, and of its initial weights' generator.
CHANNELS, POLICY_SEED = (16, 32), 0
#: The least a and b of a Beta(a, b); 1 and 1 are uniform.
LEAST = 0.1
#: Earlier steps whose changes are kept of all T, timesteps that are chosen by them, and the share of the entropy.
KEPT, CHOSEN, ENTROPY = 20, 3, 0.01


class Policy(nn.Module):
    """Images [B, C, H, W] in, Beta(a, b) over u = t/(T − 1) for each out; uniform before it has learned."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(POLICY_SEED)
            layers = [
                nn.Conv2d(before, after, 3, stride=2, padding=1)
                for before, after in zip((channels, CHANNELS[0]), CHANNELS, strict=True)
            ]
            self.seen = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU())
            self.told = nn.Linear(CHANNELS[1], 2)
        nn.init.zeros_(self.told.weight)
        nn.init.zeros_(self.told.bias)
        self.double()

    def forward(self, images: Tensor) -> Beta:
        """The distribution of each image's timestep."""
        told = self.told(self.seen(images.double()).mean((2, 3)))
        # What it calls 0 is 1, and it reaches 0 nowhere.
        a, b = (LEAST + (1 - LEAST) * softplus(told) / log(2)).unbind(1)
        return Beta(a, b, validate_args=False)


def most_telling(changes: np.ndarray, count: int) -> np.ndarray:
    """The timesteps whose changes tell most of the sum over all: those of the highest F = r²/(1 − r²)·(n − 2), [count].

    Args:
        changes: of the bound's terms in n steps, [n, T], n from 3.
        count: of timesteps.
    """
    parts, whole = changes - changes.mean(0), changes.sum(1) - changes.sum(1).mean()
    scatter = np.square(parts).sum(0)
    # F rises with r², in which the scatter of the whole stands at every timestep alike.
    squares = np.divide((parts.T @ whole) ** 2, scatter, out=np.zeros(len(scatter)), where=scatter > 0)
    return np.sort(np.argsort(-squares, kind="stable")[:count])


def bound_factors(snr: np.ndarray) -> np.ndarray:
    """What a squared error of ε counts in the variational bound, in nats a value, [T].

    ½·(SNR_{t−1} − SNR_t)/SNR_t (2107.00630, eq. 14); ½ at t = 0, where the image is read off with the noise left.
    """
    return np.concatenate([[0.5], (snr[:-1] - snr[1:]) / snr[1:] / 2])


class PolicySampler(IndependentSampler):
    """Each image's timestep by a policy that sees it; see the module. Losses are not weighted back.

    Args:
        snr: of the schedule, [T].
        refresh_images: images trained on between two measurements; the paper's are those of 40 steps.
        lr: of the policy's Adam.
    """

    sees_images = True

    def __init__(self, snr: np.ndarray, *, refresh_images: int, lr: float = 1e-2) -> None:
        if refresh_images < 1 or len(snr) < CHOSEN:
            raise UserError(
                f"a policy of {len(snr)} timesteps that learns every {refresh_images} images; allowed: from {CHOSEN}, "
                "from 1"
            )
        super().__init__(uniform(len(snr)))
        self.refresh_images, self.lr = refresh_images, lr
        #: From losses that are trained on to terms of the bound, [T].
        self.factors = self.errors = bound_factors(snr)
        self.policy: Policy | None = None
        self.changes = np.zeros((0, len(snr)))

    def set_loss_weights(self, weights: np.ndarray) -> None:
        self.factors = self.errors / weights

    def cost(self, batch_size: int) -> int:
        """A measurement is 2·(T + |S|·B) forward passes; forwards and backwards a network works three times as much."""
        return -(-2 * (len(self.factors) + CHOSEN * batch_size) // 3)

    def sample(
        self,
        batch_size: int,
        generator: np.random.Generator,
        images_trained: int = 0,
        images: Callable[[], Tensor] | None = None,
    ) -> TimestepBatch:
        if images is None:
            raise UserError("timesteps by a policy are drawn for images, and there are none")
        with torch.no_grad():
            found = self.policy_for(images())
            u = generator.beta(found.concentration1.numpy(), found.concentration0.numpy())
        timesteps = np.rint(u * (len(self.factors) - 1)).astype(np.int64)
        return TimestepBatch(timesteps, np.ones(batch_size))

    def policy_for(self, images: Tensor) -> Beta:
        """What the policy says of images [B, C, H, W] on the CPU."""
        if self.policy is None:
            self.begin(images.shape[1])
        found: Beta = self.policy(images)  # type: ignore[misc]
        return found

    def begin(self, channels: int) -> None:
        """Make the policy, once the images' channels are known."""
        self.policy = Policy(channels)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=self.lr)

    def before_step(self, losses: LossesAt, batch_size: int, generator: np.random.Generator) -> None:
        """Measure the bound before a step: of all images at the chosen timesteps, and of the first one at all."""
        count = len(self.factors)
        if len(self.changes) < CHOSEN:
            self.chosen = np.sort(generator.choice(count, CHOSEN, replace=False))
        else:
            self.chosen = most_telling(self.changes, CHOSEN)
        images = np.concatenate([np.tile(np.arange(batch_size), CHOSEN), np.zeros(count, dtype=np.int64)])
        self.asked = images, np.concatenate([self.chosen.repeat(batch_size), np.arange(count)])
        self.before = losses(*self.asked)

    def after_step(self, losses: LossesAt, images: Tensor, timesteps: np.ndarray) -> None:
        fallen = (self.before - losses(*self.asked)) * self.factors[self.asked[1]]
        if not np.isfinite(fallen).all():
            return  # training stops on it
        batch, one = np.split(fallen, [CHOSEN * len(images)])
        self.changes = np.concatenate([self.changes, one[None]])[-KEPT:]
        self.reinforce(images, timesteps, batch.reshape(CHOSEN, -1).sum(0))

    def reinforce(self, images: Tensor, timesteps: np.ndarray, rewards: np.ndarray) -> None:
        """Make timesteps [B] of images more likely by their rewards [B], and all of them by the entropy."""
        found, cells = self.policy_for(images), len(self.factors) - 1
        # What was rounded to either end came from half a cell, in whose middle it stands.
        u = torch.from_numpy((timesteps / cells).clip(0.25 / cells, 1 - 0.25 / cells))
        gained = found.log_prob(u) * torch.from_numpy(rewards) + ENTROPY * found.entropy()
        self.optimizer.zero_grad()
        (-gained.mean()).backward()
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        if self.policy is None:
            return {}
        moments = self.optimizer.state_dict()["state"]
        return {
            "policy": {name: value.tolist() for name, value in self.policy.state_dict().items()},
            "moments": {str(i): {name: value.tolist() for name, value in one.items()} for i, one in moments.items()},
            "changes": self.changes.tolist(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not state:
            return
        weights = {name: torch.tensor(value, dtype=torch.float64) for name, value in state["policy"].items()}
        self.begin(weights["seen.0.weight"].shape[1])
        assert self.policy is not None
        self.policy.load_state_dict(weights)
        moments = {
            int(i): {name: torch.tensor(value, dtype=torch.float64) for name, value in one.items()}
            for i, one in state["moments"].items()
        }
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        self.changes = np.array(state["changes"]).reshape(-1, len(self.factors))
