"""The consistency phenomenon (2404.07946): do other models make the same picture of the same noise?

Whoever is compared is a subject: a trained model, the same network before its training (does noise
alone decide, without learning?), or the best possible denoiser of the training images (do models
agree because all have learned these by heart?).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unequal.data.prepared import tensor_of, to_model_range
from unequal.diffusion.optimal_denoiser import optimal_x0
from unequal.diffusion.predictions import add_noise
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.solvers import ddim
from unequal.measures.similarity import found_again, mismatched, nearest, similarities
from unequal.models.denoiser import Denoiser

#: (x_t, t) → x0, both [B, C, H, W].
Predict = Callable[[Tensor, int], Tensor]
#: A line of a table; numbers by column, and names.
Row = dict[str, Any]

#: Images of a large set that are looked at together.
IMAGES_AT_ONCE = 4096

TRAINED, UNTRAINED, OPTIMUM = "trained", "untrained", "optimum"


@dataclass(frozen=True)
class Subject:
    """Who is compared: `state` is one of TRAINED, UNTRAINED, OPTIMUM; the optimum has no width."""

    name: str
    state: str
    width: str = ""


def relation(a: Subject, b: Subject) -> str | None:
    """How two subjects differ: `itself`, `seeds`, `widths`, `untrained`, `optimum`; None where nobody asks."""
    states = {a.state, b.state}
    if states == {TRAINED}:
        return "itself" if a == b else "seeds" if a.width == b.width else "widths"
    if states == {UNTRAINED} and a != b:
        return "untrained"
    return "optimum" if states == {TRAINED, OPTIMUM} else None


def pairs(subjects: Sequence[Subject]) -> Iterator[tuple[str, Subject, Subject]]:
    """All pairs that stand in a relation."""
    for a, b in combinations_with_replacement(subjects, 2):
        if (found := relation(a, b)) is not None:
            yield found, a, b


def picture_rows(pictures: Mapping[Subject, Tensor]) -> list[Row]:
    """How alike final pictures are, a row for each pair of subjects.

    Args:
        pictures: [n, C, H, W] of each, the i-th of all from the same noise.

    Returns:
        Means over n of every measure: `_same` of pictures from the same noise, `_other_noise` of pictures
        from different noise; and `found_again`, the share of pictures whose nearest one among the other
        subject's is that from the same noise.
    """
    rows = []
    for name, a, b in pairs(list(pictures)):
        first, second = pictures[a], pictures[b]
        again = torch.cat([found_again(first, second), found_again(second, first)]).double().mean()
        alike = likeness("same", first, second) | likeness("other_noise", first, mismatched(second))
        rows.append(named(name, a, b) | alike | {"found_again": float(again)})
    return rows


def prediction_rows(
    timestep: int, predicted: Mapping[Subject, Tensor], with_other_noise: Mapping[Subject, Tensor]
) -> list[Row]:
    """How alike predictions of x0 are at a timestep, a row for each pair of subjects.

    Args:
        timestep: t.
        predicted: [n, C, H, W] of each subject, the i-th of all from the same noisy image.
        with_other_noise: the same for the same images under other noise.

    Returns:
        Means over n of every measure: `_same` from the same noisy image, `_other_noise` from the same
        image under other noise, `_other_image` from another image under other noise.
    """
    rows = []
    for name, a, b in pairs(list(predicted)):
        alike = likeness("same", predicted[a], predicted[b])
        alike |= likeness("other_noise", predicted[a], with_other_noise[b])
        alike |= likeness("other_image", predicted[a], mismatched(predicted[b]))
        rows.append(named(name, a, b) | {"timestep": timestep} | alike)
    return rows


def named(name: str, a: Subject, b: Subject) -> Row:
    """The head of a row."""
    return {"relation": name, "first": a.name, "second": b.name}


def likeness(condition: str, a: Tensor, b: Tensor) -> Row:
    """Means of every measure of pairs that belong together under a condition."""
    return {f"{measure}_{condition}": float(values.mean()) for measure, values in similarities(a, b).items()}


def by_network(denoiser: Denoiser, clip: bool) -> Predict:
    """What a network predicts, kept within [−1, 1] if that is asked for."""

    def predict(x_t: Tensor, t: int) -> Tensor:
        x0 = denoiser.x0(x_t, torch.full((len(x_t),), t, device=x_t.device))
        return x0.clamp(-1, 1) if clip else x0

    return predict


def by_optimum(images: Tensor, schedule: NoiseSchedule) -> Predict:
    """What the best possible denoiser of these images [N, C, H, W], in [−1, 1], predicts."""

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


def nearest_of_many(pictures: Tensor, images: np.ndarray) -> tuple[Tensor, Tensor]:
    """For each picture [n, C, H, W] in [−1, 1] the nearest of many images [N, C, H, W] (uint8).

    Returns:
        Mean squared errors and indices, [n] each.
    """
    best = torch.full((len(pictures),), torch.inf)
    where = torch.zeros(len(pictures), dtype=torch.int64)
    for first in range(0, len(images), IMAGES_AT_ONCE):
        part = to_model_range(tensor_of(images[first : first + IMAGES_AT_ONCE]))
        errors, indices = nearest(pictures.cpu(), part)
        where = torch.where(errors < best, first + indices, where)
        best = torch.minimum(errors, best)
    return best, where


def means(rows: Sequence[Row], *keys: str) -> list[Row]:
    """Mean over pairs of every figure, a row for each combination of the keys' values, with the number of pairs."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        dict(zip(keys, values, strict=True))
        | {"pairs": len(group)}
        | {name: fmean(row[name] for row in group) for name in figures(group[0])}
        for values, group in found.items()
    ]


def figures(row: Row) -> list[str]:
    """The columns of a row that hold figures."""
    return [name for name, value in row.items() if isinstance(value, float)]
