"""Sources that lie in scikit-learn: handwritten digits, and patches of two photographs.

Colour patches are cut from two sample photographs, a temple roof and a flower. They do not overlap: a held-out one
shows nothing that a training one shows. Neighbours still share a sky or a petal, so held-out figures are those of the
same two scenes.
"""

from functools import cached_property
from importlib.metadata import distribution
from typing import ClassVar

import numpy as np

from unequal.data.source import Source
from unequal.errors import UserError
from unequal.settings.data import Data

#: scikit-learn's file of digits: a row an image, 64 values and its label.
DIGITS, DIGITS_COUNT = "sklearn/datasets/data/digits.csv.gz", 1797
#: k-means clusters of the patches of one photograph; the widest patch of which they are found.
KINDS, WIDEST_PATCH = 5, 128
#: Photographs, their height and width.
PHOTOGRAPHS, HEIGHT, WIDTH = 2, 427, 640


class Embedded(Source):
    """A source without a path."""

    needs_path: ClassVar[bool] = False
    classes_count: ClassVar[int]

    @property
    def pixels(self) -> np.ndarray:
        """All images."""
        raise NotImplementedError

    @classmethod
    def check(cls, data: Data) -> None:
        if data.fit != "exact":
            raise UserError(f"data.fit: '{data.fit}' has no meaning for source '{data.source}'; allowed: exact")

    def __getitem__(self, index: int, /) -> np.ndarray:
        return self.pixels[index]

    @property
    def classes(self) -> list[str]:
        return [str(number) for number in range(self.classes_count)]


class Digits(Embedded):
    """scikit-learn's 1,797 handwritten digits, 8 × 8; their values 0 … 16 are spread over 0 … 255.

    Their file is read by itself: the library imports pandas and SciPy, which takes a second.
    """

    classes_count = 10

    @classmethod
    def check(cls, data: Data) -> None:
        super().check(data)
        if (data.image_size, data.channels) != (8, 1):
            raise UserError("data: digits are 8 pixels wide with 1 channel; set image_size: 8, channels: 1")

    @cached_property
    def table(self) -> np.ndarray:
        """The file's rows."""
        return np.loadtxt(str(distribution("scikit-learn").locate_file(DIGITS)), delimiter=",")

    @cached_property
    def pixels(self) -> np.ndarray:
        """All images, [n, 1, 8, 8]."""
        return np.rint(self.table[:, :-1] * (255 / 16)).astype(np.uint8).reshape(-1, 1, 8, 8)

    def __len__(self) -> int:
        return DIGITS_COUNT

    @property
    def labels(self) -> np.ndarray:
        return self.table[:, -1].astype(np.int64)


class Patches(Embedded):
    """All patches of scikit-learn's two sample photographs, on a grid of `image_size` pixels from the top left.

    A label says of which photograph a patch is and which of its KINDS clusters it is nearest to: plain, textured or
    striped parts of one colour or another. No one has named these classes; they are there for features of a classifier
    to be learned from.
    """

    classes_count = PHOTOGRAPHS * KINDS

    @classmethod
    def check(cls, data: Data) -> None:
        super().check(data)
        if data.channels != 3 or data.image_size > WIDEST_PATCH:
            raise UserError(f"data: patches have 3 channels and at most {WIDEST_PATCH} pixels a side")

    @cached_property
    def grids(self) -> list[np.ndarray]:
        """The patches of each photograph."""
        from sklearn.datasets import load_sample_images

        return [grid_of(photograph, self.data.image_size) for photograph in load_sample_images().images]

    @cached_property
    def pixels(self) -> np.ndarray:
        """All patches."""
        return np.concatenate(self.grids)

    def __len__(self) -> int:
        return PHOTOGRAPHS * (HEIGHT // self.data.image_size) * (WIDTH // self.data.image_size)

    @property
    def labels(self) -> np.ndarray:
        return np.concatenate([KINDS * number + clusters(grid) for number, grid in enumerate(self.grids)])


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
    # Logarithms, since a few strong edges would otherwise be all that distinguishes patches.
    structure = np.log1p(np.stack([grey.std((1, 2)), *steepness], axis=1))
    table = np.concatenate([pixels.mean((2, 3)), structure], axis=1)
    return (table - table.mean(0)) / table.std(0)
