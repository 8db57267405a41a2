"""The real images that samples are compared with: those that models were trained on, or held-out ones.

Where something is chosen by a score, it is chosen by the one half of the held-out images and told of the other.
"""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from unequal.data.prepared import PreparedData

Against = Literal["train", "holdout", "holdout_choice", "holdout_report"]
#: Where each part stands in the data set, and what it is called.
PLACES: dict[Against, tuple[str, str]] = {
    "train": ("first", "training"),
    "holdout": ("last", "held-out"),
    "holdout_choice": ("last, every other from the first of them on,", "held-out"),
    "holdout_report": ("last, every other from the second of them on,", "held-out"),
}


@dataclass(frozen=True)
class Reference:
    """One part of a prepared data set.

    Attributes:
        images: uint8 [N, C, H, W], mapped from disk.
        name: which images of which data set, by content.
        told: the same for people.
        what: the same in a refusal, with the setting that chose them.
    """

    images: np.ndarray
    name: str
    told: str
    what: str

    @classmethod
    def of(cls, data: PreparedData, against: Against) -> Self:
        """The training images of a data set, its held-out ones, or a half of those."""
        images: np.ndarray = getattr(data, against)
        place, kind = PLACES[against]
        name = f"{data.facts['sha256'][:12]}, its {place} {len(images)} images"
        return cls(images, name, f"{kind} images: data set {name}", f"{kind} images (evaluation.against: {against})")
