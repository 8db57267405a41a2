"""Sets of images that may be larger than memory: they are made or read part by part, as often as they are asked for."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

#: Images that are looked at together.
BATCH = 64
#: Distances between so many images and so many others are computed together.
TILE = 1024


@dataclass(frozen=True)
class ImageSet:
    """So many uint8 images [count, C, H, W].

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
