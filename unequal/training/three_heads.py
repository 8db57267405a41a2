"""Three heads on one network: which of them learn from an image, and how they fared on the way.

Errors are compared in x0-space, where those of x0, v and ε mean the same (`common`), or as each head's
own loss has them (`native`); see `unequal.diffusion.predictions`.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from unequal.diffusion.predictions import HEADS, x0_error_factor
from unequal.models.denoiser import Denoiser
from unequal.timesteps.partition import Partition
from unequal.training.batches import Batch
from unequal.training.objectives import Losses, Objective, RunningMeans

#: Equal parts of a training in which heads are counted apart.
PERIODS = 20
#: Sums over images, and their numbers of columns.
WIDTHS = {"images": 1, "wins": len(HEADS), "losses": len(HEADS), "errors": len(HEADS), "least_errors": 1}


class HeadErrors(NamedTuple):
    """Mean squared errors of the heads, [3, B]: `native` is each one's loss, `common` the error of its x0."""

    native: Tensor
    common: Tensor


def head_errors(denoiser: Denoiser, batch: Batch) -> HeadErrors:
    """Errors of the three heads on a batch; a gradient flows through the native ones alone."""
    noised = denoiser.ask(batch.x0, batch.epsilon, batch.timesteps)
    outputs = zip(denoiser.heads, noised.output.chunk(len(HEADS), 1), strict=True)
    native = torch.stack([noised.errors(head, output) for head, output in outputs])
    factors = [x0_error_factor(head, noised.alpha, noised.sigma).flatten() for head in denoiser.heads]
    return HeadErrors(native, native.detach() * torch.stack(factors))


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

    def __init__(self, bins: Partition, budget: int, device: torch.device | str) -> None:
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
        bins: Partition,
        budget: int,
        compare: Literal["common", "native"],
        weights: Tensor | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        """
        Args:
            bins, budget: of the statistics; see Tally.
            compare: errors of x0 (`common`), or losses as they are (`native`).
            weights: of each head's loss at each timestep, [3, T]; None: 1.
            device: of the training.
        """
        super().__init__()
        self.compare = compare
        ones = torch.ones(len(HEADS), len(bins.members), device=device)
        self.weights = ones if weights is None else weights.float()
        self.tally = Tally(bins, budget, device)

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        errors = head_errors(denoiser, batch)
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

    def __init__(self, bins: Partition, budget: int, half_life: int, device: torch.device | str = "cpu") -> None:
        """
        Args:
            bins, budget: of the means and the statistics; see Tally.
            half_life: of an image in the running means, in images.
            device: of the training.
        """
        super().__init__()
        self.tally = Tally(bins, budget, device)
        self.means = RunningMeans(bins, len(HEADS), half_life, device)

    def forward(self, denoiser: Denoiser, batch: Batch) -> Losses:
        errors = head_errors(denoiser, batch)
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
