"""Writing the prepared data set, image by image, so that it may be larger than memory."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from unequal.data.prepared import FACTS, IMAGES, LABELS, Facts, Split
from unequal.data.sources import Images, Source, load
from unequal.errors import UserError, one_line
from unequal.files import write_json
from unequal.settings.data import Data

#: Refused images that a message names.
TOLD = 3
#: Of two images a spread can be computed, and real images are scored half against half.
LEAST_HELD_OUT, LEAST_TRAINED = 2, 4


def prepare(data: Data, seed: int, target: Path) -> dict[str, Any]:
    """Read a source, shuffle it with the seed, set the held-out share apart, and write the result.

    Args:
        data: the source and the form that its images are brought to.
        seed: of the order, and so of the split.
        target: folder for images.npy, labels.npy (where there are labels) and facts.json.

    Returns:
        The facts.

    Raises:
        UserError: a source or an image that cannot be used; too few images. What has been written
            by then stays, without facts.json, so that `PreparedData.open` refuses it.
    """
    source = loaded(data)
    count = len(source.images)
    border = training_images(count, data.holdout)
    order = np.random.default_rng(seed).permutation(count)
    shape = (data.channels, data.image_size, data.image_size)
    target.mkdir(parents=True, exist_ok=True)
    sha256, extremes = write_images(target / IMAGES, source.images, order, shape)
    if source.labels is not None:
        np.save(target / LABELS, source.labels[order])
    split = Split(train=[0, border], holdout=[border, count])
    facts = Facts(
        n=count,
        shape=list(shape),
        range=list(extremes),
        source=data.source,
        path=data.path,
        labels=source.classes,
        sha256=sha256,
        split=split,
    ).model_dump()
    write_json(target / FACTS, facts)
    return facts


def loaded(data: Data) -> Source:
    """The source. Raises UserError, for what the file system refuses too (a name that is too long)."""
    try:
        return load(data)
    except OSError as error:
        raise UserError(f"data.path: {data.path}: {one_line(error)}") from None


def training_images(count: int, holdout: float) -> int:
    """Number of training images among `count`.

    Raises:
        UserError: one of the two parts would have too few images for the figures that are made of it.
    """
    held_out = round(count * holdout)
    if not LEAST_HELD_OUT <= held_out <= count - LEAST_TRAINED:
        raise UserError(
            f"data.holdout: {holdout}: holds out {held_out} of {count} images; allowed: a share that gives at least "
            f"{LEAST_HELD_OUT} and leaves at least {LEAST_TRAINED} for training"
        )
    return count - held_out


def write_images(
    path: Path, images: Images, order: np.ndarray, shape: tuple[int, int, int]
) -> tuple[str, tuple[int, int]]:
    """Write images as an .npy [n, *shape] in the given order.

    Returns:
        SHA-256 of the pixels' bytes, smallest and largest value.

    Raises:
        UserError: images that cannot be used; all are checked, so that one message counts them all.
    """
    digest = hashlib.sha256()
    low, high = 255, 0
    refused: dict[int, str] = {}
    # Written as a stream: on a full disk a mapped file would end the process with a signal, not an error.
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(order), *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        for index in tqdm(order, desc="images", unit="image", disable=None):
            try:
                pixels = images[index]
            except UserError as error:
                refused[int(index)] = str(error)
            if refused:
                continue
            content = pixels.tobytes()
            file.write(content)
            digest.update(content)
            low, high = min(low, int(pixels.min())), max(high, int(pixels.max()))
    if refused:
        raise UserError(refusal_of(refused, len(order)))
    return digest.hexdigest(), (low, high)


def refusal_of(refused: dict[int, str], count: int) -> str:
    """Message that images of a set cannot be used: how many there are, and the first few by their index."""
    first = [refused[index] for index in sorted(refused)[:TOLD]]
    if len(refused) == 1:
        return first[0]
    more = "; …" if len(refused) > TOLD else ""
    return f"{len(refused)} of {count} images cannot be used: {'; '.join(first)}{more}"
