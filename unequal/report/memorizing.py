"""Samples next to their nearest training images and to held-out images, which reveals memorized images."""

import numpy as np

#: Images in a row of a picture.
SHOWN = 12
#: Number of pixel values of training images that are compared with samples at a time.
CHUNK = 1 << 24


def grid_size(rows: int) -> tuple[float, float]:
    """Width and height of a picture with this number of rows, in inches."""
    return 10.5, 0.75 * rows + 0.3


def memorizing_rows(
    samples: np.ndarray, data: np.ndarray, held_out: np.ndarray
) -> tuple[dict[str, np.ndarray], float | None]:
    """Rows below a model's samples, and the median distance of samples from training images over held-out images'.

    Args:
        samples: uint8 [n, C, H, W].
        data: training images, uint8 [N, C, H, W].
        held_out: images that no training sees, uint8 [m, C, H, W]; without any, the distance is unknown.
    """
    nearest, distances = nearest_images(samples, data)
    rows = {"nearest training image": nearest[:SHOWN]}
    if not len(held_out):
        return rows, None
    held_out = distinct(spread(held_out, len(samples)))
    _, real = nearest_images(held_out, data)
    ratio = float(np.median(distances) / max(np.median(real), 1e-12))
    return rows | {"held-out images": spread(held_out, SHOWN)}, ratio


def spread(images: np.ndarray, count: int) -> np.ndarray:
    """Select at most `count` images, evenly spread over a data set, since neighbours may be similar."""
    return np.array(images[:: max(1, len(images) // count)][:count])


def distinct(images: np.ndarray) -> np.ndarray:
    """Remove images that equal an earlier one, without changing the order."""
    firsts = np.unique(images.reshape(len(images), -1), axis=0, return_index=True)[1]
    return np.array(images[np.sort(firsts)])


def nearest_images(images: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest image of a data set for each image, and the root mean squared difference.

    Args:
        images: uint8 [n, C, H, W].
        data: uint8 [N, C, H, W], possibly mapped from disk; read in parts.

    Returns:
        Images uint8 [n, C, H, W], and distances [n] in values of 0 to 255.
    """
    flat = images.reshape(len(images), -1).astype(np.float32)
    best, index = np.full(len(flat), np.inf, np.float32), np.zeros(len(flat), int)
    step = max(1, CHUNK // flat.shape[1])
    for first in range(0, len(data), step):
        part = data[first : first + step].reshape(-1, flat.shape[1]).astype(np.float32)
        squared = (flat**2).sum(1)[:, None] - 2 * flat @ part.T + (part**2).sum(1)
        nearest = squared.argmin(1)
        smallest = squared[np.arange(len(flat)), nearest]
        index = np.where(smallest < best, first + nearest, index)
        best = np.minimum(best, smallest)
    return np.stack([data[one] for one in index]), np.sqrt(np.maximum(best, 0) / flat.shape[1])
