"""Three heads on one network: which of them learn from an image, and how they fared on the way.

Errors are compared in x0-space, where those of x0, v and ε mean the same (`common`), or as each head's
own loss has them (`native`); see `unequal.diffusion.predictions`.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, cat, nn

from unequal.diffusion.predictions import (
    HEADS,
    HEADS_OF_FLOW,
    NetworkFunction,
    add_noise,
    squared_error,
    target,
    x0_error_factor,
)
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import Losses, Objective, RunningMeans, Wrapped

#: Equal parts of a training in which heads are counted apart.
PERIODS = 20
#: Sums over images, and their numbers of columns.
WIDTHS = {"images": 1, "wins": len(HEADS), "losses": len(HEADS), "errors": len(HEADS), "least_errors": 1}


class HeadErrors(NamedTuple):
    """Mean squared errors of the heads, [3, B]: `native` is each one's loss, `common` the error of its x0."""

    native: Tensor
    common: Tensor


def head_errors(net: NetworkFunction, batch: Batch, schedule: NoiseSchedule) -> HeadErrors:
    """Errors of the three heads on a batch; a gradient flows through the native ones alone."""
    alpha, sigma = schedule.at(batch.timesteps, batch.x0)
    outputs = net(add_noise(batch.x0, batch.epsilon, alpha, sigma), batch.timesteps).sample.chunk(len(HEADS), 1)
    targets = [target(head, batch.x0, batch.epsilon, alpha, sigma) for head in HEADS]
    native = torch.stack([squared_error(goal, out) for out, goal in zip(outputs, targets, strict=True)])
    factors = torch.stack([x0_error_factor(head, alpha, sigma).flatten() for head in HEADS])
    return HeadErrors(native, native.detach() * factors)


def columns(sums: Tensor) -> dict[str, Tensor]:
    """Sums [..., columns] by name."""
    return dict(zip(WIDTHS, sums.split(list(WIDTHS.values()), dim=-1), strict=True))


class Tally(nn.Module):
    """Sums over the images of each part of a training and bin of timesteps, on the device.

    Summed are the images, the wins, losses and x0-errors of each head, and the least x0-error of each image.
    """

    history: Tensor
    images: Tensor
    pending: Tensor

    def __init__(self, bins: Partition, budget: int, device: torch.device) -> None:
        """
        Args:
            bins: of the timesteps.
            budget: images of the whole training.
            device: of the training.
        """
        super().__init__()
        self.bins = torch.from_numpy(bins.members).to(device)
        self.budget = budget
        zeros = torch.zeros(len(bins), sum(WIDTHS.values()), dtype=torch.float64, device=device)
        # Between steps nothing is pending, and only then is a state saved.
        self.register_buffer("pending", zeros, persistent=False)
        self.register_buffer("history", zeros.repeat(PERIODS, 1, 1))
        self.register_buffer("images", torch.zeros((), dtype=torch.int64, device=device))

    def add(self, timesteps: Tensor, errors: HeadErrors, best: Tensor) -> None:
        """Take in a part of a batch whose heads `best` [B] had the smallest errors."""
        wins = nn.functional.one_hot(best, len(HEADS))
        least = errors.common.min(0, keepdim=True).values
        rows = torch.cat([torch.ones_like(least), wins.T, errors.native.detach(), errors.common, least])
        self.pending.index_add_(0, self.bins[timesteps], rows.T.double())

    def end_step(self, total: Callable[[Tensor], Tensor]) -> Tensor:
        """Book a step; its sums over all processes, [bins, columns of WIDTHS]."""
        sums = total(self.pending)
        period = (self.images * PERIODS // self.budget).clamp(max=PERIODS - 1)
        self.history.index_add_(0, period[None], sums[None])
        self.images += sums[:, 0].sum().long()
        self.pending = torch.zeros_like(self.pending)
        return sums

    def tables(self) -> dict[str, np.ndarray]:
        """The sums by name, [parts of the training, bins] or [parts, bins, 3]; and the bin of each timestep, [T]."""
        tables = {name: part.squeeze(-1).numpy() for name, part in columns(self.history.cpu()).items()}
        return tables | {"bins": self.bins.cpu().numpy()}


class BestHead(Objective):
    """Paper 1's mixed prediction: for each image only the head with the smallest error learns, by its own loss."""

    def __init__(
        self,
        schedule: NoiseSchedule,
        bins: Partition,
        budget: int,
        compare: Literal["common", "native"],
        weights: Tensor | None = None,
    ) -> None:
        """
        Args:
            schedule: on the training device.
            bins, budget: of the statistics; see Tally.
            compare: errors of x0 (`common`), or losses as they are (`native`).
            weights: of each head's loss at each timestep, [3, T]; None: 1.
        """
        super().__init__()
        self.schedule = schedule
        self.compare = compare
        self.weights = (torch.ones_like(schedule.snr).repeat(len(HEADS), 1) if weights is None else weights).float()
        self.tally = Tally(bins, budget, schedule.alpha.device)

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        errors = head_errors(net, batch, self.schedule)
        best = (errors.common if self.compare == "common" else errors.native.detach()).argmin(0)
        self.tally.add(batch.timesteps, errors, best)
        loss = errors.native.gather(0, best[None])[0]
        weight = self.weights[:, batch.timesteps].gather(0, best[None])[0]
        return Losses(loss * weight * batch.weights, {"mse": loss.detach().mean()} | batch_win_shares(best))

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        self.tally.end_step(total)

    def statistics(self) -> dict[str, np.ndarray]:
        return self.tally.tables()


class BalancedHeads(Objective):
    """All heads learn from every image, each loss divided by its own running mean at such timesteps.

    So no head outweighs another, whatever the space of its loss, and none is left behind.
    """

    def __init__(self, schedule: NoiseSchedule, bins: Partition, budget: int, half_life: int) -> None:
        """
        Args:
            schedule: on the training device.
            bins, budget: of the means and the statistics; see Tally.
            half_life: of an image in the running means, in images.
        """
        super().__init__()
        self.schedule = schedule
        self.tally = Tally(bins, budget, schedule.alpha.device)
        self.means = RunningMeans(bins, len(HEADS), half_life, schedule.alpha.device)

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        errors = head_errors(net, batch, self.schedule)
        best = errors.common.argmin(0)
        self.tally.add(batch.timesteps, errors, best)
        loss = (errors.native / self.means.at(batch.timesteps)).mean(0)
        return Losses(loss * batch.weights, {"mse": errors.native.detach().mean()} | batch_win_shares(best))

    def end_step(self, total: Callable[[Tensor], Tensor]) -> None:
        step = columns(self.tally.end_step(total))
        self.means.update(step["images"], step["losses"])

    def statistics(self) -> dict[str, np.ndarray]:
        return self.tally.tables()


def batch_win_shares(best: Tensor) -> dict[str, Tensor]:
    """Share of a batch's images that each head was best at; `best` is [B]."""
    return {f"wins_{head}": (best == i).float().mean() for i, head in enumerate(HEADS)}


class OnFlow(Wrapped):
    """An objective of x0, v and ε for a network that predicts x0, the velocity and ε from a flow's times.

    What lies between the two targets, v − u, is added to the network's answer: its error stays as it is, and so does
    what that means for x0, σ² for either on a flow.
    """

    def __init__(self, objective: Objective, schedule: NoiseSchedule) -> None:
        super().__init__(objective)
        self.schedule = schedule

    def forward(self, net: NetworkFunction, batch: Batch) -> Losses:
        between = self.targets(HEADS, batch) - self.targets(HEADS_OF_FLOW, batch)

        def answer(sample: Tensor, timestep: Tensor, **arguments: Any) -> Any:
            return SimpleNamespace(
                sample=net(sample, self.schedule.model_timestep(timestep), **arguments).sample + between
            )

        return self.objective(answer, batch)

    def targets(self, heads: tuple[str, ...], batch: Batch) -> Tensor:
        """Targets of the heads, concatenated, [B, 3·C, H, W]."""
        levels = self.schedule.at(batch.timesteps, batch.x0)
        return cat([target(head, batch.x0, batch.epsilon, *levels) for head in heads], dim=1)
