"""A prepared data set as latents, the training data of latent models."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from unequal.data.prepared import FACTS, IMAGES, LABELS, Facts, PreparedData, tensor_of
from unequal.errors import UserError
from unequal.files import write_json
from unequal.latents.autoencoder import Autoencoder
from unequal.progress import tracked


def encode(data: PreparedData, autoencoder: Autoencoder, shape: tuple[int, int, int], name: str, target: Path) -> Facts:
    """Write the latents of all images, in their order and with their split, as a prepared data set of its own.

    Args:
        data: uint8 images.
        autoencoder: one that fits them.
        shape: [c, h, w] of a latent.
        name: of the autoencoder; see `unequal.latents.autoencoder.identity`.
        target: folder to be made.

    Returns:
        The facts of the latents.

    Raises:
        UserError: the autoencoder makes latents that are no numbers.
    """
    target.mkdir(parents=True)
    sha256, extremes = write_latents(target / IMAGES, data.images, autoencoder, shape)
    if data.labels is not None:
        shutil.copyfile(data.path / LABELS, target / LABELS)
    changed: dict[str, Any] = {"shape": list(shape), "range": extremes, "sha256": sha256, "autoencoder": name}
    facts = Facts.model_validate(data.facts | changed)
    write_json(target / FACTS, facts.model_dump())
    return facts


def write_latents(
    path: Path, images: np.ndarray, autoencoder: Autoencoder, shape: tuple[int, int, int]
) -> tuple[str, list[float]]:
    """Write an .npy of float32 [n, *shape]; SHA-256 of its values' bytes, smallest and largest value.

    Raises UserError where latents are NaN or infinite.
    """
    digest, low, high = hashlib.sha256(), np.inf, -np.inf
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(images), *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in tracked(range(0, len(images), autoencoder.batch_size), "batches", "latents"):
            part = tensor_of(images[start : start + autoencoder.batch_size])
            latents = autoencoder.encode(part).float().cpu().numpy().astype("<f4")
            refuse_unsound(latents, start)
            file.write(latents.tobytes())
            digest.update(latents.tobytes())
            low, high = min(low, float(latents.min())), max(high, float(latents.max()))
    return digest.hexdigest(), [low, high]


def refuse_unsound(latents: np.ndarray, start: int) -> None:
    """Raise UserError where a latent of images from `start` on is NaN or infinite."""
    if len(wrong := np.flatnonzero(~np.isfinite(latents).all(axis=(1, 2, 3)))):
        raise UserError(
            f"autoencoder: the latent of image {start + wrong[0]} is NaN or infinite; its weights or scaling_factor "
            "are unsound (of a trained one, lower autoencoder.lr)"
        )
