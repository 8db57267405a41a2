"""Colour patches cut from scikit-learn's two sample photographs, a temple roof and a flower.

Patches do not overlap: a held-out one shows nothing that a training one shows. What neighbours
share (a sky, a petal) they share all the same, so held-out figures are those of the same two scenes.
"""

import numpy as np

#: k-means clusters of the patches of one photograph.
KINDS = 5


def cut_patches(size: int) -> tuple[np.ndarray, np.ndarray]:
    """All patches of both photographs (427 × 640 RGB), on a grid of `size` pixels from the top left.

    A label says of which photograph a patch is and which of its KINDS clusters it is nearest to:
    plain, textured or striped parts of one colour or another. No one has named these classes; they
    are there for features of a classifier to be learned from.

    Args:
        size: height and width of a patch in pixels, at most 128.

    Returns:
        uint8 [n, 3, size, size] and int64 [n] in 0 … 2·KINDS − 1.
    """
    from sklearn.datasets import load_sample_images

    grids = [grid_of(photograph, size) for photograph in load_sample_images().images]
    labels = [KINDS * number + clusters(patches) for number, patches in enumerate(grids)]
    return np.concatenate(grids), np.concatenate(labels)


def grid_of(photograph: np.ndarray, size: int) -> np.ndarray:
    """Patches [n, C, size, size] of an image [H, W, C], row by row; what is left at the end of a side is dropped."""
    height, width, channels = photograph.shape
    rows, columns = height // size, width // size
    whole = photograph[: rows * size, : columns * size].reshape(rows, size, columns, size, channels)
    return whole.transpose(0, 2, 4, 1, 3).reshape(rows * columns, channels, size, size)


def clusters(patches: np.ndarray) -> np.ndarray:
    """The k-means cluster of each patch, int64 [n] in 0 … KINDS − 1; always the same ones."""
    from sklearn.cluster import KMeans

    found = KMeans(KINDS, n_init=10, random_state=0).fit_predict(descriptors(patches))
    return found.astype(np.int64)


def descriptors(patches: np.ndarray) -> np.ndarray:
    """Mean colour, contrast and steepness in either direction, standardised over the patches, [n, 6]."""
    pixels = patches.astype(np.float64)
    grey = pixels.mean(1)
    steepness = [np.abs(np.diff(grey, axis=axis)).mean((1, 2)) for axis in (1, 2)]
    # Logarithms, since a few strong edges would otherwise be all that tells patches apart.
    structure = np.log1p(np.stack([grey.std((1, 2)), *steepness], axis=1))
    table = np.concatenate([pixels.mean((2, 3)), structure], axis=1)
    return (table - table.mean(0)) / table.std(0)
