"""Writing the prepared data set, image by image, so that it may be larger than memory."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unequal.data.decoding import decoded
from unequal.data.pictures import KINDS, check_head
from unequal.data.prepared import FACTS, IMAGES, LABELS, Facts, Split
from unequal.data.sources import FolderImages, Images, load
from unequal.data.split import copies_of, split_of, training_images
from unequal.errors import UserError, say
from unequal.runtime.files import write_json
from unequal.runtime.progress import tracked
from unequal.settings.data import Data

#: Refused images that a message lists.
LISTED = 3
#: Images in the shuffled order, before equal ones are brought to one side of the split.
SHUFFLED = "shuffled.npy"


def prepare(data: Data, seed: int, target: Path, parts: Path | None = None) -> dict[str, Any]:
    """Read a source, shuffle it with the seed, set the held-out share apart, and write the result.

    Args:
        data: the source and the form that its images are brought to.
        seed: of the order, and so of the split.
        target: folder for images.npy, labels.npy (where there are labels) and facts.json.
        parts: folder of decoded files, from which a stopped preparation goes on; None: it would begin again.

    Returns:
        The facts.

    Raises:
        UserError: a source or an image that cannot be used; too few images. What has been written
            by then stays, without facts.json, so that `PreparedData.open` refuses it.
    """
    source = load(data)
    count = len(source.images)
    held_out = count - training_images(count, data.holdout)
    say(*(f"data: {note}" for note in (*source.notes, *surveyed(source.images))), err=True)
    order = np.random.default_rng(seed).permutation(count)
    target.mkdir(parents=True, exist_ok=True)
    written, final, border = write_split(target, source.images, order, held_out, data, parts)
    if source.labels is not None:
        np.save(target / LABELS, source.labels[order][final])
    facts = Facts(
        n=count,
        shape=[data.channels, data.image_size, data.image_size],
        range=list(written.extremes),
        source=data.source,
        labels=None if source.classes is None else len(source.classes),
        classes=None if source.classes is None else list(source.classes),
        converted=dict(sorted(source.images.converted.items())) if isinstance(source.images, FolderImages) else {},
        left_out=source.left_out,
        copies=copies_of(written.groups, border),
        sha256=written.sha256,
        split=Split(train=[0, border], holdout=[border, count]),
    )
    write_json(target / FACTS, facts.model_dump())
    say(*(f"data: {note}" for note in notes_of(facts)), err=True)
    return facts.model_dump()


def surveyed(images: Images) -> list[str]:
    """Describe the pixels of image files by their heads, before any is decoded.

    Raises:
        UserError: files that cannot be used; one message counts them all.
    """
    if not isinstance(images, FolderImages):
        return []
    modes, refused = Counter[str](), dict[int, str]()
    for index, file in enumerate(images.files):
        try:
            modes[check_head(file, images.data)] += 1
        except UserError as error:
            refused[index] = str(error)
    if refused:
        raise UserError(refusal_of(refused, len(images)))
    return [f"{len(images):,} images: " + ", ".join(f"{number:,} {mode}" for mode, number in modes.most_common())]


def notes_of(facts: Facts) -> list[str]:
    """Describe what a person should know of prepared images: conversions and copies."""
    notes = []
    if facts.converted:
        parts = ", ".join(f"{number:,} {what}" for what, number in facts.converted.items())
        notes.append(f"converted to 8-bit {KINDS[facts.shape[0]]}: {parts}; data.convert: false refuses them")
    if number := facts.copies.train + facts.copies.holdout:
        notes.append(
            f"{number:,} of {facts.n:,} images equal another one ({facts.copies.holdout:,} of those held out); "
            "equal images stand on one side of the split"
        )
    return notes


class Written(NamedTuple):
    """A file of images.

    Attributes:
        sha256: of the pixels' bytes.
        extremes: the smallest and the largest value.
        groups: [n], a number that equal images share.
    """

    sha256: str
    extremes: tuple[int, int]
    groups: np.ndarray


def write_split(
    target: Path, images: Images, order: np.ndarray, held_out: int, data: Data, parts: Path | None
) -> tuple[Written, np.ndarray, int]:
    """Write images in an order, equal ones on one side of the split.

    Returns:
        The written file; the places in `order` of its images; the index of the first held-out one.

    Raises:
        UserError: images that cannot be used, or too few different ones.
    """
    shape = (data.channels, data.image_size, data.image_size)
    written = write_images(target / IMAGES, images, order, shape, parts)
    final, border = split_of(written.groups, held_out)
    if not np.array_equal(final, np.arange(len(order))):
        (target / IMAGES).rename(target / SHUFFLED)
        written = write_images(
            target / IMAGES, np.load(target / SHUFFLED, mmap_mode="r", allow_pickle=False), final, shape
        )
        (target / SHUFFLED).unlink()
    return written, final, border


def write_images(
    path: Path, images: Images, order: np.ndarray, shape: tuple[int, int, int], parts: Path | None = None
) -> Written:
    """Write images as an .npy [n, *shape] in the given order.

    Raises:
        UserError: images that cannot be used; all are checked, so that one message counts them all.
    """
    digest = hashlib.sha256()
    low, high = 255, 0
    refused: dict[int, str] = {}
    digests = np.zeros(len(order), np.uint64)
    # Written as a stream: on a full disk a mapped file would end the process with a signal, not an error.
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(order), *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        each = decoded(images, order, shape, parts) if isinstance(images, FolderImages) else read(images, order)
        for place, index in enumerate(tracked(order, "images", "data")):
            pixels = next(each)
            if isinstance(pixels, UserError):
                refused[int(index)] = str(pixels)
            if refused or isinstance(pixels, UserError):
                continue
            content = pixels.tobytes()
            file.write(content)
            digest.update(content)
            digests[place] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
            low, high = min(low, int(pixels.min())), max(high, int(pixels.max()))
    if refused:
        raise UserError(refusal_of(refused, len(order)))
    return Written(digest.hexdigest(), (low, high), np.unique(digests, return_inverse=True)[1])


def read(images: Images, order: np.ndarray) -> Iterator[np.ndarray | UserError]:
    """Images of an array in an order, or why one cannot be used."""
    for index in order:
        try:
            yield images[index]
        except UserError as error:
            yield error


def refusal_of(refused: dict[int, str], count: int) -> str:
    """Message that images of a set cannot be used: how many there are, and the first few by their index."""
    first = [refused[index] for index in sorted(refused)[:LISTED]]
    if len(refused) == 1:
        return first[0]
    more = "; …" if len(refused) > LISTED else ""
    return f"{len(refused)} of {count} images cannot be used: {'; '.join(first)}{more}"
