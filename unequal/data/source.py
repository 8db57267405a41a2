"""What a data set is to the pipeline: images by their index, with their labels where they have any.

A source reads one image at a time, and only then, so that a data set may be larger than memory. It refuses what it
cannot use with a UserError that names the file. `unequal.data.sources` has the table of all sources.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from unequal.errors import UserError
from unequal.settings.data import Data


class Source:
    """A data set: uint8 images [C, H, W] of the size and channels that the settings say.

    A subclass gives the number of its images and its classes without reading an image.

    Attributes:
        data: the settings.
        notes: what a person should know, a line each.
        why_unlabelled: why there are no classes.
        left_out: files and images that do not count.
        converted: what was converted with loss so far → number of images.
    """

    #: Whether `data.path` must be set.
    needs_path: ClassVar[bool] = True
    #: Whether the content below the path is hashed; a source that verifies its own files needs no hash.
    hashed: ClassVar[bool] = True
    #: Whether the numbers of the classes are the same everywhere, so that no names have to be compared.
    numbers_are_known: ClassVar[bool] = False

    def __init__(self, data: Data) -> None:
        """Open the data set. Raises UserError where it cannot be used."""
        self.data = data
        self.notes: tuple[str, ...] = ()
        self.why_unlabelled, self.left_out = "", 0
        self.converted: Counter[str] = Counter()

    @classmethod
    def check(cls, data: Data) -> None:
        """Raise UserError for settings that cannot be of this source; nothing is read."""

    @property
    def path(self) -> Path:
        """`data.path`. Raises UserError where there is none."""
        if self.data.path is None:
            raise UserError(f"data.path: null; source '{self.data.source}' needs a path")
        return Path(self.data.path)

    def __len__(self) -> int:
        """Number of images."""
        raise NotImplementedError

    def __getitem__(self, index: int, /) -> np.ndarray:
        """One image. Raises UserError where it cannot be read or has another form."""
        raise NotImplementedError

    @property
    def classes(self) -> Sequence[str] | None:
        """Names of the classes; None without labels."""
        return None

    @property
    def labels(self) -> np.ndarray | None:
        """int64 [n], indices of `classes`."""
        return None

    def survey(self) -> list[str]:
        """Describe the images before any is read. Raises UserError for all that cannot be used."""
        return []

    def each(self, order: np.ndarray, parts: Path | None = None) -> Iterator[np.ndarray | UserError]:
        """Images in an order, or why one cannot be used; `parts` is a folder for what a stopped reading has done."""
        for index in order:
            try:
                yield self[index]
            except UserError as error:
                yield error


#: Refused images that a message lists.
LISTED = 3


def refusal_of(refused: list[str], count: int) -> str:
    """Message that images of a set cannot be used: how many there are, and the first few by name."""
    first = sorted(refused)[:LISTED]
    if len(refused) == 1:
        return first[0]
    more = "; …" if len(refused) > LISTED else ""
    return f"{len(refused)} of {count} images cannot be used: {'; '.join(first)}{more}"
