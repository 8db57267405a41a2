"""A prepared data set as latents, the training data of latent models."""

import hashlib
import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from torch import Tensor

from unequal.data.prepared import FACTS, IMAGES, LABELS, Facts, PreparedData, tensor_of
from unequal.errors import UserError
from unequal.runtime.chunks import Maker, Makers
from unequal.runtime.devices import ranges
from unequal.runtime.files import write_json


class Encoder(Protocol):
    """Encodes uint8 images [N, C, H, W] to latents [N, c, h, w], so many at once: `unequal.models.autoencoder`."""

    batch_size: int

    def encode(self, images: Tensor) -> Tensor: ...


def makers_of(images: np.ndarray, autoencoder: Encoder, shape: tuple[int, int, int]) -> Makers:
    """The latents of images in parts, which processes share and a stopped computation finds again."""
    return {
        f"{part.start:09d}": Maker((len(part), *shape), partial(latents_of, images, part, autoencoder))
        for part in ranges(len(images), autoencoder.batch_size)
    }


def latents_of(images: np.ndarray, part: range, autoencoder: Encoder) -> np.ndarray:
    """Latents of some images, float32. Raises UserError where one is NaN or infinite."""
    size, found = autoencoder.batch_size, []
    for start in range(part.start, part.stop, size):
        batch = tensor_of(images[start : min(start + size, part.stop)])
        latents = autoencoder.encode(batch).float().cpu().numpy().astype("<f4")
        if len(wrong := np.flatnonzero(~np.isfinite(latents).all(axis=(1, 2, 3)))):
            raise UserError(
                f"autoencoder: the latent of image {start + wrong[0]} is NaN or infinite; its weights or "
                "scaling_factor are unsound (of a trained one, lower autoencoder.lr)"
            )
        found.append(latents)
    return np.concatenate(found)


def write_latents(
    data: PreparedData, parts: Iterable[np.ndarray], shape: tuple[int, int, int], name: str, target: Path
) -> Facts:
    """Write the latents of all images, in their order and with their split, as a prepared data set of its own.

    Returns:
        The facts of the latents, with the smallest and the largest value and SHA-256 of the values' bytes.
    """
    target.mkdir(parents=True)
    digest, low, high = hashlib.sha256(), np.inf, -np.inf
    with (target / IMAGES).open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(data.images), *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for latents in parts:
            content = latents.tobytes()
            file.write(content)
            digest.update(content)
            low, high = min(low, float(latents.min())), max(high, float(latents.max()))
    if data.labels is not None:
        shutil.copyfile(data.path / LABELS, target / LABELS)
    changed = {"shape": list(shape), "range": [low, high], "sha256": digest.hexdigest(), "autoencoder": name}
    facts = Facts.model_validate(data.facts | changed)
    write_json(target / FACTS, facts.model_dump())
    return facts
