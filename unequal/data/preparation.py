"""Writing the prepared data set, image by image, so that it may be larger than memory."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unequal.data.pictures import KINDS
from unequal.data.prepared import FACTS, IMAGES, LABELS, Facts, Split
from unequal.data.source import Source, refusal_of
from unequal.data.sources import open_source
from unequal.data.split import copies_of, split_of, training_images
from unequal.errors import UserError, say
from unequal.runtime.files import write_json
from unequal.runtime.progress import tracked
from unequal.settings.data import Data

#: Classes that a message lists; a range of values below a tenth of all.
SHOWN, NARROW = 12, 26
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
    source = open_source(data)
    count = len(source)
    held_out = count - training_images(count, data.holdout)
    say(*(f"data: {note}" for note in (*source.notes, *source.survey(), *class_counts(source))), err=True)
    order = np.random.default_rng(seed).permutation(count)
    target.mkdir(parents=True, exist_ok=True)
    written, final, border = write_split(target, source, order, held_out, parts)
    classes, labels = source.classes, source.labels
    if labels is not None:
        np.save(target / LABELS, labels[order][final])
    facts = Facts(
        n=count,
        shape=[data.channels, data.image_size, data.image_size],
        range=list(written.extremes),
        source=data.source,
        labels=None if classes is None else len(classes),
        classes=None if classes is None else list(classes),
        numbered=source.numbers_are_known,
        converted=dict(sorted(source.converted.items())),
        left_out=source.left_out,
        copies=copies_of(written.groups, border),
        sha256=written.sha256,
        split=Split(train=[0, border], holdout=[border, count]),
    )
    write_json(target / FACTS, facts.model_dump())
    say(*(f"data: {note}" for note in notes_of(facts)), err=True)
    return facts.model_dump()


def class_counts(source: Source) -> list[str]:
    """Name the classes with their numbers of images, the largest first."""
    if (labels := source.labels) is None or source.classes is None:
        return []
    counts = Counter(dict(zip(source.classes, np.bincount(labels, minlength=len(source.classes)), strict=True)))
    parts = [f"{name} {count:,}" for name, count in counts.most_common(SHOWN)]
    return [f"{len(counts)} classes: {', '.join(parts)}{', …' if len(counts) > SHOWN else ''}"]


def notes_of(facts: Facts) -> list[str]:
    """Describe what a person should know of prepared images: values, conversions and copies."""
    notes, (low, high) = [], facts.range
    if high - low < NARROW:
        notes.append(f"values lie in {low} … {high} of 0 … 255; are they masks, or numbers of classes?")
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
    target: Path, source: Source, order: np.ndarray, held_out: int, parts: Path | None
) -> tuple[Written, np.ndarray, int]:
    """Write images in an order, equal ones on one side of the split.

    Returns:
        The written file; the places in `order` of its images; the index of the first held-out one.

    Raises:
        UserError: images that cannot be used, or too few different ones.
    """
    shape = (source.data.channels, source.data.image_size, source.data.image_size)
    written = write_images(target / IMAGES, source.each(order, parts), len(order), shape)
    final, border = split_of(written.groups, held_out)
    if not np.array_equal(final, np.arange(len(order))):
        (target / IMAGES).rename(target / SHUFFLED)
        shuffled = np.load(target / SHUFFLED, mmap_mode="r", allow_pickle=False)
        written = write_images(target / IMAGES, (shuffled[place] for place in final), len(final), shape)
        (target / SHUFFLED).unlink()
    return written, final, border


def write_images(
    path: Path, images: Iterable[np.ndarray | UserError], count: int, shape: tuple[int, int, int]
) -> Written:
    """Write so many images, or why one cannot be used, as an .npy [n, *shape].

    Raises:
        UserError: images that cannot be used; all are checked, so that one message counts them all.
    """
    digest = hashlib.sha256()
    low, high = 255, 0
    refused = list[str]()
    digests = np.zeros(count, np.uint64)
    # Written as a stream: on a full disk a mapped file would end the process with a signal, not an error.
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)}
        np.lib.format.write_array_header_1_0(file, header)
        each = iter(images)
        for place in tracked(range(count), "images", "data"):
            pixels = next(each)
            if isinstance(pixels, UserError):
                refused.append(str(pixels))
            if refused or isinstance(pixels, UserError):
                continue
            content = pixels.tobytes()
            file.write(content)
            digest.update(content)
            digests[place] = int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())
            low, high = min(low, int(pixels.min())), max(high, int(pixels.max()))
    if refused:
        raise UserError(refusal_of(refused, count))
    return Written(digest.hexdigest(), (low, high), np.unique(digests, return_inverse=True)[1])
