"""Whether the base has come far enough, and not too far, for a comparison of what is made of it to mean anything."""

import math
from dataclasses import dataclass

import numpy as np

from unequal.artifacts.curves import TrainingCurve
from unequal.report.statements import Statement
from unequal.report.tables import plus_minus

#: Of the way from noise to real images, on the scale of ln FID. Half of it is the geometric mean of both ends: below,
#: the base's samples are nearer to noise, and how two models differ there says nothing about good ones.
HALF_WAY = 0.5
#: By what share the loss may still fall per doubling of images. Methods train the base on for about half a doubling
#: and are asked about a few per cent: where the loss falls faster, the length of a training hides what it was for.
STEEP = 0.25
#: By what share the base's FID lies above that of real images at least, for a method to have something left to win.
#: FIDs of halves of the real images are biased upwards by their small number: within a quarter both are one.
HEADROOM = 0.25


@dataclass(frozen=True)
class Readiness:
    """Where the base stands.

    Attributes:
        fid: of the base.
        noise, real: FID of noise, and of one half of the real images, against real images.
        slope: d ln(training loss) / d log₂(images) in the second half of its training; None where that was not logged.
    """

    fid: float
    noise: float
    real: float
    slope: float | None

    @property
    def covered(self) -> float | None:
        """ln(noise/base) / ln(noise/real): 0 is noise, 1 is real images; None where these two are not apart.

        A FID of 0, which features give that are the same for all images, is no point of this scale.
        """
        if not (min(self.fid, self.noise, self.real) > 0 and self.noise > self.real):
            return None
        return math.log(self.noise / self.fid) / math.log(self.noise / self.real)

    @property
    def falls_by(self) -> float | None:
        """The share of its loss that a doubling of images takes away at the end; below 0 where the loss rises."""
        return None if self.slope is None else -math.expm1(self.slope)

    @property
    def faults(self) -> list[str]:
        """Why nothing can be ranked, each as half a sentence; none where the base is ready."""
        found = []
        if self.covered is None:
            found.append(
                f"on FIDs of {shown(self.noise)} for noise and {shown(self.real)} for real images there is no scale"
            )
        elif self.covered < HALF_WAY:
            found.append(f"{self.way}, less than {100 * HALF_WAY:.0f} %")
        if self.falls_by is not None and self.falls_by > STEEP:
            found.append(f"{self.fall}, more than {100 * STEEP:.0f} %")
        return found

    @property
    def ready(self) -> bool:
        """Whether comparisons may be ranked."""
        return not self.faults

    @property
    def way(self) -> str:
        """How far the base has come, as half a sentence."""
        covered = f"{100 * (self.covered or 0):.0f} %".replace("-", "−")
        return (
            f"its FID of {shown(self.fid)} has covered {covered} of the way from noise ({shown(self.noise)}) to real "
            f"images ({shown(self.real)}), in ln FID"
        )

    @property
    def fall(self) -> str:
        """How its loss moves at the end of its training, as half a sentence."""
        if self.falls_by is None:
            return "too little of its loss was logged to say whether it still falls"
        return (
            f"its training loss {'fell' if self.falls_by >= 0 else 'rose'} by {100 * abs(self.falls_by):.0f} % "
            "per doubling of images at the end"
        )

    def figures(self) -> dict[str, float]:
        """The same as numbers."""
        known = {"covered_percent": self.covered, "loss_falls_percent": self.falls_by}
        return {"ready": float(self.ready)} | {name: 100 * one for name, one in known.items() if one is not None}

    def statements(self) -> list[Statement]:
        """What the page says of it."""
        if self.ready:
            text = f"The base is far enough for comparisons: {self.way}; {self.fall}."
        else:
            text = f"The base is not far enough for comparisons: {'; '.join(self.faults)}. Nothing below is ranked."
        return [Statement("base", text, self.figures()), *self.headroom()]

    def headroom(self) -> list[Statement]:
        """What is left to win, where the scale has an end."""
        if self.covered is None:
            return []
        ratio = self.fid / self.real
        multiple = f"The base's FID is {ratio:.2f} × that of real images against each other"
        if ratio > 1 + HEADROOM:
            text = f"{multiple}."
        else:
            text = f"{multiple}: no headroom, FID can hardly show what a method adds."
        return [Statement("headroom", text, {"fid_over_real": ratio})]


def final_slope(curve: TrainingCurve) -> float | None:
    """d ln(loss) / d log₂(images) over the second half of a training, by least squares; None of one line or none."""
    late = curve.images >= curve.images[-1] / 2 if len(curve.images) else np.zeros(0, bool)
    if late.sum() < 2:
        return None
    return float(np.polyfit(np.log2(curve.images[late]), np.log(curve.losses[late]), 1)[0])


def shown(fid: float) -> str:
    """A FID as text."""
    return plus_minus(fid, None) if fid else "0"
