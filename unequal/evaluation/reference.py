"""The real images that samples are compared with: those that models were trained on, or held-out ones."""

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from unequal.data.prepared import PreparedData

Against = Literal["train", "holdout"]


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
        """The training or the held-out images of a data set."""
        images, place, kind = (
            (data.train, "first", "training") if against == "train" else (data.holdout, "last", "held-out")
        )
        name = f"{data.facts['sha256'][:12]}, its {place} {len(images)} images"
        return cls(images, name, f"{kind} images: data set {name}", f"{kind} images (evaluation.against: {against})")
