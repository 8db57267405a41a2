"""The errors of ε of a pipeline at all draws, in chunks that outlive an interruption."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from unequal.diffusion.predictions import add_noise, squared_error, to_epsilon, to_x0
from unequal.errors import UserError, first_line
from unequal.profiler.families.family import LABEL, LATENT, Asked, Family
from unequal.profiler.kept import Kept, Rows
from unequal.profiler.strata import Share, Strata
from unequal.workspace import Chunks, ranges


@dataclass(frozen=True)
class Split:
    """Images of a split as the network sees them, what it is told of them, and the draws.

    Attributes:
        strata: the draws.
        latents: rows of LATENT.
        known: further rows, each of all images that are drawn.
        labels: the class of each image, where the network is told classes, [N].
    """

    strata: Strata
    latents: Kept
    known: Kept | None = None
    labels: Tensor | None = None

    def rows(self, one: Share, device: torch.device) -> tuple[Tensor, Rows]:
        """Clean images [B, C, H, W] of a batch, and what is known of them."""
        known = {} if self.known is None else self.known.rows(one.images)
        if self.labels is not None:
            known[LABEL] = self.labels[torch.from_numpy(one.images)]
        x0 = self.latents.rows(one.images)[LATENT]
        return x0.to(device), {name: rows.to(device) for name, rows in known.items()}


class Asking:
    """A pipeline's network on a device, asked for ε."""

    def __init__(self, family: Family, net: nn.Module, device: torch.device) -> None:
        self.family, self.net, self.device = family, net, device
        self.schedule = family.schedule.tables().to(device)

    @torch.no_grad()
    def errors(self, split: Split, one: Share) -> Tensor:
        """Squared errors of ε of a batch, mean over values, [B]."""
        x0, known = split.rows(one, self.device)
        epsilon = split.strata.noise(one, tuple(x0.shape[1:])).to(self.device)
        t = torch.from_numpy(one.timesteps).to(self.device)
        levels = self.schedule.at(t, x0)
        x_t = add_noise(x0, epsilon, *levels)
        answer = self.family.answer(self.net, Asked(x_t, self.schedule.model_timestep(t), known))
        if answer.shape != x0.shape:
            raise self.family.refusal(f"answers {list(answer.shape[1:])} for images of {list(x0.shape[1:])}")
        if self.family.prediction == "epsilon":
            return squared_error(epsilon, answer)
        return squared_error(epsilon, to_epsilon(to_x0(self.family.prediction, answer, x_t, *levels), x_t, *levels))


def losses(asking: Callable[[], Asking], split: Split, batch_size: int, chunks: Chunks, bar: "tqdm[Any]") -> np.ndarray:
    """Losses of all draws, [K, n] float32; the network is fetched when a chunk is missing.

    Raises:
        UserError: the network cannot be asked such images, runs out of memory, answers NaN or infinite values, or errs
            nowhere at a timestep, as where the schedule leaves images no signal that float32 can tell.
    """
    shares = list(ranges(split.strata.index.size, batch_size))
    present = sum(len(share) for share in shares if chunks.folder and chunks.file(str(share.start)).exists())
    bar.update(present)

    def measured(share: range) -> np.ndarray:
        model, found = asking(), []
        for one in split.strata.batches(batch_size, share):
            found.append(told(model, split, one))
            bar.update(len(one.timesteps))
        return checked(torch.cat(found).float().cpu().numpy(), split.strata, share)

    whole = np.concatenate(chunks.all({str(share.start): partial(measured, share) for share in shares}))
    table = whole.reshape(split.strata.index.shape)
    if len(none := np.flatnonzero(~table.any(1))):
        raise UserError(f"all errors of ε at t = {split.strata.timesteps[none[0]]} are 0; allowed: errors above 0")
    return table


def told(model: Asking, split: Split, one: Share) -> Tensor:
    """Errors of a batch; what the network cannot do is said in one line."""
    try:
        return model.errors(split, one)
    except torch.cuda.OutOfMemoryError:
        raise UserError(
            f"--batch-size {len(one.timesteps)}: too much for the GPU's memory; a smaller one needs less, "
            "and so does --precision bf16"
        ) from None
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise model.family.refusal(f"cannot be asked such images: {first_line(error)}") from None


def checked(found: np.ndarray, strata: Strata, share: range) -> np.ndarray:
    """Losses of a share, if they are numbers. Raises UserError."""
    if len(wrong := np.flatnonzero(~np.isfinite(found))):
        t = strata.timesteps[(share.start + wrong[0]) // strata.index.shape[1]]
        raise UserError(f"the network answers NaN or infinite values at t = {t}; --precision fp32 may help")
    return found
