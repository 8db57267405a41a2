"""The consistency phenomenon (2404.07946): do other models make the same picture of the same noise?

A subject is a trained model, the same network before its training (does noise alone decide, without learning?), or the
optimal denoiser of the training images (do models agree because all have memorized these?). Images are [B, C, H, W] in
[−1, 1]. Distances are mean squared errors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from studies.consistency.params import with_width
from unequal.diffusion.optimal_denoiser import optimal_x0
from unequal.diffusion.predictions import add_noise
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.solvers import ddim
from unequal.models.backbones.backbone import build_network
from unequal.models.denoiser import Denoiser
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream, torch_seed
from unequal.settings.network import UNet2D

#: (x_t, t) → x0, both [B, C, H, W].
Predict = Callable[[Tensor, int], Tensor]
#: A line of a table; numbers by column, and names.
Row = dict[str, Any]

#: Elements of the table of distances that `nearest` holds at a time.
DISTANCES_AT_ONCE = 1 << 24

TRAINED, UNTRAINED, OPTIMUM = "trained", "untrained", "optimum"


@dataclass(frozen=True)
class Subject:
    """A denoiser to compare; `state` is TRAINED, UNTRAINED or OPTIMUM, and the optimum has no width."""

    name: str
    state: str
    width: str = ""


def relation(a: Subject, b: Subject) -> str | None:
    """How subjects differ: `itself`, `seeds`, `widths`, `architectures`, `untrained`, `optimum`; None: not asked."""
    states = {a.state, b.state}
    if states == {TRAINED}:
        if a.width == b.width:
            return "itself" if a == b else "seeds"
        return "widths" if a.width.startswith("dit") == b.width.startswith("dit") else "architectures"
    if states == {UNTRAINED} and a != b:
        return "untrained"
    return "optimum" if states == {TRAINED, OPTIMUM} else None


def pairs(subjects: Sequence[Subject]) -> Iterator[tuple[str, Subject, Subject]]:
    """All pairs that stand in a relation."""
    for a, b in combinations_with_replacement(subjects, 2):
        if (found := relation(a, b)) is not None:
            yield found, a, b


def untrained(network: UNet2D, width: str, seed: int, spec: ModelSpec) -> nn.Module:
    """The network of a width, as in `16-32`, with the weights that a training of this seed begins with.

    Raises UserError where no network can have that width.
    """
    torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS))
    return build_network(with_width(network, width), spec)


def mismatched(images: Tensor) -> Tensor:
    """Images, each in its neighbour's place, so that no pair with another set belongs together."""
    return torch.roll(images, 1, dims=0)


def nearest(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Nearest image of b [N, …] for each image of a [B, …]: its mean squared error and its index, [B] each."""
    # The quicker way by a matrix product gives no exact 0 for equal images.
    table = partial(torch.cdist, x2=b.flatten(1), compute_mode="donot_use_mm_for_euclid_dist")
    rows = max(1, DISTANCES_AT_ONCE // len(b))
    distances, indices = zip(*(table(part).min(1) for part in a.flatten(1).split(rows)), strict=True)
    return torch.cat(distances) ** 2 / a[0].numel(), torch.cat(indices)


def mse(a: Tensor, b: Tensor) -> float:
    """Mean squared error of all pairs."""
    return float((a - b).square().flatten(1).mean(1).mean())


def distances(
    answers: Mapping[Subject, Tensor], with_other_noise: Mapping[Subject, Tensor] | None = None, **facts: int
) -> list[Row]:
    """Mean distances of answers, a row for each pair of subjects.

    Args:
        answers: pictures or predicted x0 of each subject, [n, C, H, W], the i-th of all from the same noise or noisy
            image.
        with_other_noise: predictions for the same images under other noise; None: of pictures, which are made of
            noise alone.
        facts: of all rows.

    Returns:
        Means over n: `mse_same` from the same noise, `mse_other_noise` from other noise; and of predictions
        `mse_other_image`, from another image and other noise.
    """
    rows = []
    for name, a, b in pairs(list(answers)):
        row: Row = {"relation": name, "first": a.name, "second": b.name, **facts}
        row["mse_same"] = mse(answers[a], answers[b])
        other = mse(answers[a], mismatched(answers[b]))
        if with_other_noise is None:
            rows.append(row | {"mse_other_noise": other})
        else:
            noisy = mse(answers[a], with_other_noise[b])
            rows.append(row | {"mse_other_noise": noisy, "mse_other_image": other})
    return rows


def by_network(denoiser: Denoiser, clip: bool) -> Predict:
    """Predict by a network, clipped to [−1, 1] if `clip`."""

    def predict(x_t: Tensor, t: int) -> Tensor:
        x0 = denoiser.x0(x_t, torch.full((len(x_t),), t, device=x_t.device))
        return x0.clamp(-1, 1) if clip else x0

    return predict


def by_optimum(images: Tensor, schedule: NoiseSchedule) -> Predict:
    """Predict by the optimal denoiser of images [N, C, H, W]."""

    def predict(x_t: Tensor, t: int) -> Tensor:
        return optimal_x0(x_t, images, schedule.alpha[t], schedule.sigma[t]).to(x_t.dtype)

    return predict


@torch.no_grad()
def sampled(
    predict: Predict, start: Tensor, timesteps: Sequence[int], schedule: NoiseSchedule, batch_size: int
) -> Tensor:
    """Pictures [n, C, H, W] in [−1, 1] by deterministic DDIM from noise of that shape."""
    parts = [ddim(part, timesteps, schedule, predict) for part in start.split(batch_size)]
    return torch.cat(parts).clamp(-1, 1)


@torch.no_grad()
def predicted_x0(
    predict: Predict, x0: Tensor, epsilon: Tensor, t: int, schedule: NoiseSchedule, batch_size: int
) -> Tensor:
    """Predictions of images [n, C, H, W] from their noisy forms at a timestep."""
    x_t = add_noise(x0, epsilon, schedule.alpha[t].to(x0), schedule.sigma[t].to(x0))
    return torch.cat([predict(part, t) for part in x_t.split(batch_size)])


def means(rows: Sequence[Row], *keys: str) -> list[Row]:
    """Mean over pairs of every figure, a row for each combination of the keys' values, with the number of pairs."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        dict(zip(keys, values, strict=True))
        | {"pairs": len(group)}
        | {name: fmean(row[name] for row in group) for name, value in group[0].items() if isinstance(value, float)}
        for values, group in groups.items()
    ]
