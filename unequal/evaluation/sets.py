"""Sets of images that may exceed memory, made or read part by part, and the real images to compare samples with.

Where a score selects something, one half of the held-out images selects and the other half reports.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from unequal.data.prepared import PreparedData

#: Images that a network sees together, on a CPU and on a GPU.
BATCH, GPU_BATCH = 64, 256
Against = Literal["train", "holdout", "holdout_choice", "holdout_report"]
#: Where each part stands in the data set, and what it is called.
PLACES: dict[Against, tuple[str, str]] = {
    "train": ("first", "training"),
    "holdout": ("last", "held-out"),
    "holdout_choice": ("last, every other from the first of them on,", "held-out"),
    "holdout_report": ("last, every other from the second of them on,", "held-out"),
}


@dataclass(frozen=True)
class ImageSet:
    """Set of `count` uint8 images [C, H, W].

    Attributes:
        count: of all parts together.
        parts: the images end to end, in arrays [n, C, H, W] of any lengths; called once for every look at them.
    """

    count: int
    parts: Callable[[], Iterable[np.ndarray]]

    @classmethod
    def of(cls, images: np.ndarray) -> Self:
        """The set of an array, which may be mapped from disk."""
        return cls(len(images), lambda: [images])

    def __len__(self) -> int:
        return self.count

    def batches(self, size: int = BATCH) -> Iterator[np.ndarray]:
        """The images cut anew, [size, C, H, W] each, the last batch as long as it comes out."""
        rest = None
        for part in self.parts():
            images = part if rest is None else np.concatenate([rest, part])
            whole = len(images) // size * size
            yield from (images[start : start + size] for start in range(0, whole, size))
            rest = images[whole:] if whole < len(images) else None
        if rest is not None:
            yield rest

    def first(self, count: int) -> np.ndarray:
        """The first so many images, or all if there are fewer; no more are made than are needed."""
        return next(self.batches(count))


def noise(count: int, shape: tuple[int, ...], random: Callable[[], np.random.Generator]) -> ImageSet:
    """Images of noise: each value N(127.5, 127.5²), cut to 0 … 255.

    Args:
        count: of images.
        shape: [C, H, W].
        random: begins the same stream of numbers at every call; how it is cut changes none of them.
    """

    def parts() -> Iterator[np.ndarray]:
        generator = random()
        for start in range(0, count, BATCH):
            values = generator.normal(127.5, 127.5, (min(BATCH, count - start), *shape))
            yield np.clip(values, 0, 255).astype(np.uint8)

    return ImageSet(count, parts)


@dataclass(frozen=True)
class Reference:
    """One part of a prepared data set.

    Attributes:
        images: uint8 [N, C, H, W], mapped from disk.
        name: which images of which data set, by content.
        description: of the images, for people.
        what: the same in a refusal, with the setting that chose them.
    """

    images: np.ndarray
    name: str
    description: str
    what: str

    @classmethod
    def of(cls, data: PreparedData, against: Against) -> Self:
        """The training images of a data set, its held-out ones, or a half of those."""
        images: np.ndarray = getattr(data, against)
        place, kind = PLACES[against]
        name = f"{data.facts['sha256'][:12]}, its {place} {len(images)} images"
        copies = data.facts["copies"]["train" if against == "train" else "holdout"]
        equal = f"; {copies} {kind} images repeat another {kind} one" if copies else ""
        return cls(
            images, name, f"{kind} images: data set {name}{equal}", f"{kind} images (evaluation.against: {against})"
        )
