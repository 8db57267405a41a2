"""Timesteps and weights for the batches of any training loop.

What is drawn is a function of seed, draw and what the sampler has learned, as in `unequal.training.batches`: the same
batches come after a resumption, and from any number of processes that share them.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, distributed

from unequal.errors import UserError
from unequal.randomness import Stream, uniforms_of
from unequal.timesteps.samplers import TimestepSampler

#: Draws after which the losses of a batch count. By then a device has long computed them: to ask for those of the last
#: batch would be to wait until nothing is left for it to do.
DELAY = 2


class Drawn(NamedTuple):
    """Timesteps [B] (int64) and the factors [B] (float32) by which their losses are multiplied."""

    timesteps: Tensor
    weights: Tensor


@dataclass(frozen=True)
class PendingLosses:
    """Losses of a draw on their way from a device.

    Attributes:
        draw: its number.
        timesteps: of all processes, [B].
        losses: [B] in host memory, there once `arrived` has come.
        arrived: None: they are there.
    """

    draw: int
    timesteps: np.ndarray
    losses: Tensor
    arrived: "torch.cuda.Event | None" = None

    def arrived_losses(self) -> np.ndarray:
        if self.arrived is not None:
            self.arrived.synchronize()
        return self.losses.double().numpy()


class LossQueue:
    """Losses of a sampler's draws, from which it learns `DELAY` draws later, on every device alike."""

    def __init__(self, sampler: TimestepSampler) -> None:
        self.sampler = sampler
        self.pending: deque[PendingLosses] = deque()

    def push(self, draw: int, timesteps: np.ndarray, losses: Tensor) -> None:
        """Begin to copy the losses [B] of a draw from their device."""
        self.pending.append(PendingLosses(draw, timesteps, *to_host(losses)))

    def learn(self, draw: int, finite: bool = False) -> None:
        """Hand on the losses that count in a draw. Raises UserError for others than finite ones, if asked for them."""
        while self.pending and self.pending[0].draw <= draw - DELAY:
            one = self.pending.popleft()
            losses = one.arrived_losses()
            if finite and not np.isfinite(losses).all():
                raise UserError(f"learn: losses of draw {one.draw} are NaN or infinite; allowed: finite ones")
            self.sampler.learn(one.timesteps, losses)

    def state(self) -> list[list[Any]]:
        """All that is pending, as JSON can carry it; waits for losses that are on their way."""
        return [[one.draw, one.timesteps.tolist(), one.arrived_losses().tolist()] for one in self.pending]

    def load(self, state: Sequence[Sequence[Any]]) -> None:
        self.pending = deque(
            PendingLosses(draw, np.array(t), torch.tensor(losses, dtype=torch.float64)) for draw, t, losses in state
        )


class Timesteps:
    """Timesteps and weights for a loop's batches, drawn by a sampler.

    Where torch.distributed is initialised, each process gets its part of a batch that all of them share, and learns
    from the losses of the whole. Nothing waits for a device but a copy of losses that are `DELAY` draws old.

    Args:
        sampler: of the timesteps; one that measures gradients has no place in a loop that it does not know.
        seed: of all draws, the same in all processes.
        loss_weights: [T], by which losses are multiplied besides the sampler's own factors; None: by nothing.

    Raises:
        UserError: a sampler that measures gradients, or weights of another number of timesteps.
    """

    def __init__(
        self, sampler: TimestepSampler, seed: int = 0, loss_weights: Tensor | np.ndarray | Sequence[float] | None = None
    ) -> None:
        if sampler.refresh_images:
            raise UserError(
                f"{type(sampler).__name__} measures gradients of single images, which needs this project's own loop; "
                "allowed: a sampler that learns from losses, or not at all"
            )
        count = len(sampler.probabilities)
        table = np.ones(count) if loss_weights is None else np.asarray(torch.as_tensor(loss_weights).cpu().double())
        if table.shape != (count,) or not (np.isfinite(table) & (table >= 0)).all():
            what = f"loss weights of shape {list(table.shape)} for {count} timesteps"
            raise UserError(f"{what}; allowed: [{count}], finite and not negative")
        if seed < 0:
            raise UserError(f"seed: {seed}; allowed: from 0")
        self.sampler, self.seed, self.loss_weights = sampler, seed, table
        self.draws = self.images = 0
        self.losses = LossQueue(sampler)
        self.last: np.ndarray | None = None

    def draw(self, batch_size: int, device: torch.device | str = "cpu") -> Drawn:
        """The next batch.

        Args:
            batch_size: B, of this process; the same in all that share a batch.
            device: where both tensors are needed.

        Raises:
            UserError: no such batch; losses of an earlier draw that are NaN or infinite.
        """
        if batch_size < 1:
            raise UserError(f"draw: a batch of {batch_size} images; allowed: from 1")
        self.losses.learn(self.draws, finite=True)
        rank, processes = rank_and_world_size()
        uniforms = uniforms_of(range(processes * batch_size), self.seed, Stream.TIMESTEPS, self.draws)
        batch = self.sampler.sample(uniforms, images_trained=self.images)
        self.draws, self.images, self.last = self.draws + 1, self.images + processes * batch_size, batch.timesteps
        own = slice(rank * batch_size, (rank + 1) * batch_size)
        timesteps = batch.timesteps[own]
        weights = (batch.weights[own] * self.loss_weights[timesteps]).astype(np.float32)
        return Drawn(to_device(timesteps, device), to_device(weights, device))

    def learn(self, losses: Tensor) -> None:
        """Hand on the losses [B] of the last batch, before weights; nothing is done for a sampler that learns nothing.

        In all processes or in none. Raises UserError where they are not one for each timestep that was drawn last.
        """
        if not self.sampler.learns:
            return
        if self.last is None:
            raise UserError("learn: there is no batch whose losses are unknown; allowed: once after each draw")
        if losses.device.type == "cpu" and not losses.isfinite().all():
            raise UserError("learn: losses are NaN or infinite; allowed: finite ones")
        whole = all_gather(losses.detach())
        if whole.shape != self.last.shape:
            raise UserError(
                f"learn: losses of shape {list(losses.shape)}; allowed: one for each timestep of the last draw, before "
                "any mean over images"
            )
        self.losses.push(self.draws - 1, self.last, whole)
        self.last = None

    def state_dict(self) -> dict[str, Any]:
        """All that the next draws depend on, as JSON can carry it; waits for losses that are on their way."""
        learned = {"losses": self.losses.state(), "sampler": self.sampler.state_dict()}
        return {"seed": self.seed, "draws": self.draws, "images": self.images} | learned

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state. Raises UserError where it is that of another seed or sampler, or no state."""
        if not isinstance(state, Mapping) or state.keys() != {"seed", "draws", "images", "losses", "sampler"}:
            raise UserError(f"no state of draws: it holds {', '.join(map(str, state)) or 'nothing'}")
        if state["seed"] != self.seed:
            raise UserError(f"the state is that of draws with seed {state['seed']}; allowed: seed {self.seed}")
        self.sampler.load_state_dict(state["sampler"])
        self.draws, self.images, self.last = state["draws"], state["images"], None
        self.losses.load(state["losses"])


def rank_and_world_size() -> tuple[int, int]:
    """The number of this process among those that share a training, and how many they are."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def to_device(array: np.ndarray, device: torch.device | str) -> Tensor:
    """An array on a device, without waiting for it."""
    tensor, to = torch.from_numpy(array), torch.device(device)
    return tensor.pin_memory().to(to, non_blocking=True) if to.type == "cuda" else tensor.to(to)


def all_gather(losses: Tensor) -> Tensor:
    """This process's losses [B] with those of the others, in the order of the batch that they share."""
    _, processes = rank_and_world_size()
    if processes == 1:
        return losses
    parts = [torch.empty_like(losses) for _ in range(processes)]
    distributed.all_gather(parts, losses.contiguous())
    return torch.cat(parts)


def to_host(losses: Tensor) -> tuple[Tensor, "torch.cuda.Event | None"]:
    """Losses on their way to host memory, and the event by which they are there."""
    if losses.device.type != "cuda":
        return losses.clone().cpu(), None
    here = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=True)
    here.copy_(losses, non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record()
    return here, arrived
