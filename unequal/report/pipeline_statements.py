"""Statements of the pipeline's report: whether the base is ready, and what the losses show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unequal.artifacts.profiles import TrainingCurve
from unequal.measures.loss_profile import LossProfile
from unequal.report.formatting import plus_minus
from unequal.report.results import Change
from unequal.report.statements import Statement

#: Of the way from noise to real images, on the scale of ln FID. Half of it is the geometric mean of both ends: below,
#: the base's samples are nearer to noise, and how two models differ there says nothing about good ones.
HALF_WAY = 0.5
#: By what share the loss may still fall per doubling of images. Methods train the base on for about half a doubling
#: and are asked about a few per cent: where the loss falls faster, the length of a training hides what it was for.
STEEP = 0.25
#: By what share the base's FID lies above that of real images at least, for a method to have something left to win.
#: FIDs of halves of the real images are biased upwards by their small number: within a quarter both are one.
HEADROOM = 0.25
#: A change counts as a rise or a fall where it exceeds so many standard errors.
ERRORS = 2.0


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


def spread_of_losses(base: LossProfile) -> Statement:
    """By how much the losses of the base's timesteps differ."""
    high, low = int(base.mean.argmax()), int(base.mean.argmin())
    ratio = base.largest_over_smallest
    error = ratio * math.hypot(*(float(base.stderr[t] / base.mean[t]) for t in (high, low)))
    text = f"The base's training loss at t = {high} is {plus_minus(ratio, error)} times its loss at t = {low}."
    return Statement("losses", text, {"ratio": ratio, "ratio_stderr": error, "largest_at": high, "smallest_at": low})


def slot_statements(changes: Mapping[str, Sequence[Change]]) -> list[Statement]:
    """What training the base on inside one slot did to the losses inside and outside of it.

    Args:
        changes: of `train` and `holdout`; empty where no slot model was profiled.
    """
    return [
        *(own_slots(changes["train"], changes["holdout"]) if changes["train"] else []),
        *other_slots([one for one in changes["train"] if not one.own]),
    ]


def own_slots(train: Sequence[Change], holdout: Sequence[Change]) -> list[Statement]:
    """Losses inside the slots that were trained on."""
    own, held_out = ([one for one in split if one.own] for split in (train, holdout))
    text = (
        f"Training the base on inside one slot changed the training loss of that slot by {span(own)}, and its "
        f"held-out loss by {span(held_out)}."
    )
    figures = {f"{one.slot}_percent": 100 * one.change for one in own}
    figures |= {f"{one.slot}_holdout_percent": 100 * one.change for one in held_out}
    return [Statement("own_slot", text, figures | extremes(own))]


def other_slots(others: Sequence[Change]) -> list[Statement]:
    """Losses outside of the slots that were trained on; nothing where there are no others."""
    if not others:
        return []
    rose = sum(one.change > ERRORS * one.stderr for one in others)
    fell = sum(one.change < -ERRORS * one.stderr for one in others)
    text = (
        f"Of the {len(others)} training losses of other slots {rose} rose and {fell} fell by more than {ERRORS:g} "
        f"standard errors; they changed by {span(others)}."
    )
    return [Statement("other_slots", text, {"losses": len(others), "rose": rose, "fell": fell} | extremes(others))]


def extremes(changes: Sequence[Change]) -> dict[str, float]:
    """The smallest and the largest change."""
    percents = [100 * one.change for one in changes]
    return {"least_percent": min(percents), "most_percent": max(percents)}


def span(changes: Sequence[Change]) -> str:
    """From the smallest to the largest change, with standard errors."""
    least, most = (choose(changes, key=lambda one: one.change) for choose in (min, max))
    ends = [plus_minus(100 * one.change, 100 * one.stderr, signed=True) for one in (least, most)]
    return f"{ends[0]} %" if len(changes) == 1 else f"{ends[0]} to {ends[1]} %"
