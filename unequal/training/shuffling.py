"""In which order images are seen: epoch after epoch, each shuffled by its own number, a pure function of the step.

A data set that memory may not hold is shuffled in windows of neighbours: windows come in any order, images in
any order within them, so that a disk reads stretches instead of single images. Prepared images lie in random
order already, and the windows' borders move from epoch to epoch.
"""

from functools import lru_cache

import numpy as np

from unequal.randomness import Stream, numpy_generator

#: From this size on images are shuffled in windows. By the data alone, so that no machine changes a result; smaller
#: sets fit into any memory, and an order that is the same as ever is worth more to them.
WINDOWED_BYTES = 4 << 30
#: Size of a window: long to a disk, short to a memory.
WINDOW_BYTES = 64 << 20


def window_of(images: int, bytes_an_image: int) -> int | None:
    """Images that are shuffled together; None: all of them."""
    if images * bytes_an_image < WINDOWED_BYTES:
        return None
    return max(1, WINDOW_BYTES // bytes_an_image)


def image_indices(
    seed: int, step: int, batch_size: int, images: int, window: int | None = None, repeats: int = 1
) -> np.ndarray:
    """Indices [B] of a step, where each image comes so many times in a row."""
    positions = np.arange(step * batch_size, (step + 1) * batch_size) // repeats
    epochs, offsets = np.divmod(positions, images)
    return np.concatenate(
        [in_epoch(seed, int(epoch), offsets[epochs == epoch], images, window) for epoch in np.unique(epochs)]
    )


def in_epoch(seed: int, epoch: int, offsets: np.ndarray, images: int, window: int | None) -> np.ndarray:
    """Indices of the images that come at these places [n] of an epoch."""
    if window is None:
        return permutation(seed, epoch, images)[offsets]
    order, starts, shift = windows(seed, epoch, images, window)
    places = np.searchsorted(starts, offsets, side="right") - 1
    found = np.empty_like(offsets)
    for place in np.unique(places):
        here, number = places == place, int(order[place])
        length = min(window, images - number * window)
        shuffled = numpy_generator(seed, Stream.SHUFFLE, epoch, number).permutation(length)
        found[here] = number * window + shuffled[offsets[here] - starts[place]]
    return (found + shift) % images


@lru_cache(maxsize=4)
def windows(seed: int, epoch: int, images: int, window: int) -> tuple[np.ndarray, np.ndarray, int]:
    """The order of an epoch's windows, the place in the epoch where each begins, and how far all are moved."""
    generator = numpy_generator(seed, Stream.SHUFFLE, epoch)
    order = generator.permutation(-(-images // window))
    lengths = np.minimum(window, images - order * window)
    return order, np.cumsum(lengths) - lengths, int(generator.integers(images))


@lru_cache(maxsize=4)
def permutation(seed: int, epoch: int, images: int) -> np.ndarray:
    """The order of the images in an epoch."""
    return numpy_generator(seed, Stream.SHUFFLE, epoch).permutation(images)
