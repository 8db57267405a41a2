"""Statements of the pipeline's report: whether the base is ready, and what the losses show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unequal.evaluation.loss_profile import LossProfile
from unequal.report.figures import TrainingCurve
from unequal.report.formatting import plus_minus, signed
from unequal.report.results import Change
from unequal.report.statements import Statement

#: Least share of the way from noise to real images that the base must cover, on the scale of ln FID. Below one half,
#: the geometric mean of both ends, samples are nearer to noise, and differences do not carry over to good models.
HALF_WAY = 0.5
#: Largest fall of the loss per doubling of images. Methods train the base for about half a doubling more and have
#: effects of a few per cent: if the loss falls faster, the effect of training length hides that of the method.
STEEP = 0.25
#: Least excess of the base's FID over that of real images, as a share, for a method to have room to improve. FIDs of
#: halves of the real images are biased upwards by their small number, so FIDs within a quarter count as equal.
HEADROOM = 0.25
#: Number of standard errors from which a change counts as a rise or a fall.
ERRORS = 2.0


@dataclass(frozen=True)
class Readiness:
    """Quality of the base, between noise and real images.

    Attributes:
        fid: FID of the base.
        noise, real: FID of noise and of real images, against real images.
        slope: d ln(training loss) / d log₂(images) in the second half of the base's training; None: not logged.
    """

    fid: float
    noise: float
    real: float
    slope: float | None

    @property
    def covered(self) -> float | None:
        """Position ln(noise/base) / ln(noise/real): 0 is noise, 1 is real images; None: there is no such scale.

        A FID of 0, which results from features that are equal for all images, has no position.
        """
        if not (min(self.fid, self.noise, self.real) > 0 and self.noise > self.real):
            return None
        return math.log(self.noise / self.fid) / math.log(self.noise / self.real)

    @property
    def falls_by(self) -> float | None:
        """Fall of the loss per doubling of images at the end, as a share; negative: the loss rises."""
        return None if self.slope is None else -math.expm1(self.slope)

    @property
    def faults(self) -> list[str]:
        """Reasons why nothing is ranked, each as half a sentence; empty: the base is ready."""
        found = []
        if self.covered is None:
            found.append(f"FID {shown(self.noise)} of noise and {shown(self.real)} of real images span no scale")
        elif self.covered < HALF_WAY:
            found.append(f"{self.scale}, {100 * self.covered:.0f} % of the way in ln FID".replace("-", "−"))
        if self.falls_by is not None and self.falls_by > STEEP:
            found.append(f"{self.trend}, more than {100 * STEEP:.0f} %")
        return found

    @property
    def ready(self) -> bool:
        """Say whether comparisons may be ranked."""
        return not self.faults

    @property
    def scale(self) -> str:
        """FID of the base between those of noise and real images, as half a sentence."""
        return f"FID {shown(self.fid)} (noise {shown(self.noise)}, real images {shown(self.real)})"

    @property
    def trend(self) -> str:
        """Change of the loss at the end of training, as half a sentence."""
        if self.falls_by is None:
            return "too little of its loss was logged to see a trend"
        direction = "fell" if self.falls_by >= 0 else "rose"
        return f"the training loss {direction} by {100 * abs(self.falls_by):.0f} % per doubling of images at the end"

    def figures(self) -> dict[str, float]:
        """The numbers of the statement."""
        known = {"covered_percent": self.covered, "loss_falls_percent": self.falls_by}
        return {"ready": float(self.ready)} | {name: 100 * one for name, one in known.items() if one is not None}

    def statements(self) -> list[Statement]:
        """Statements on whether the base is ready, and on its headroom if the scale exists."""
        if self.ready:
            text = f"The base is good enough for comparisons: {self.scale}; {self.trend}."
        else:
            faults = "; ".join(self.faults)
            text = f"The base is not good enough for comparisons: {faults}. Until it is, no method is recommended."
        found = [Statement("base", text, self.figures())]
        if self.covered is not None:
            ratio = self.fid / self.real
            little = "" if ratio > 1 + HEADROOM else ": no headroom, FID can hardly show an improvement"
            text = f"The base's FID is {plus_minus(ratio, None)} × that of real images{little}."
            found.append(Statement("headroom", text, {"fid_over_real": ratio}))
        return found


def final_slope(curve: TrainingCurve) -> float | None:
    """Slope d ln(loss) / d log₂(images) over the second half of a training, by least squares; None: under two lines."""
    late = curve.images >= curve.images[-1] / 2 if len(curve.images) else np.zeros(0, bool)
    if late.sum() < 2:
        return None
    return float(np.polyfit(np.log2(curve.images[late]), np.log(curve.losses[late]), 1)[0])


def shown(fid: float) -> str:
    """Format a FID."""
    return plus_minus(fid, None) if fid else "0"


def spread_of_losses(base: LossProfile) -> Statement:
    """Statement of the ratio of the largest to the smallest loss of the base's timesteps."""
    high, low = int(base.mean.argmax()), int(base.mean.argmin())
    ratio = base.largest_over_smallest
    error = ratio * math.hypot(*(float(base.stderr[t] / base.mean[t]) for t in (high, low)))
    text = f"The base's training loss at t = {high} is {plus_minus(ratio, error)} times its loss at t = {low}."
    return Statement("losses", text, {"ratio": ratio, "ratio_stderr": error, "largest_at": high, "smallest_at": low})


def slot_statements(changes: Mapping[str, Sequence[Change]]) -> list[Statement]:
    """Statements on changes of losses inside and outside the slots on which the base was fine-tuned.

    Args:
        changes: by split, `train` and `holdout`; empty: no slot model was profiled.
    """
    return [
        *(own_slots(changes["train"], changes["holdout"]) if changes["train"] else []),
        *other_slots([one for one in changes["train"] if not one.own]),
    ]


def own_slots(train: Sequence[Change], holdout: Sequence[Change]) -> list[Statement]:
    """Statements on losses inside the fine-tuned slots."""
    own, held_out = ([one for one in split if one.own] for split in (train, holdout))
    text = (
        f"Fine-tuning the base on one slot changes that slot's training loss by {span(own)}; its held-out loss changes "
        f"by {span(held_out)}."
    )
    figures = {f"{one.slot}_percent": 100 * one.change for one in own}
    figures |= {f"{one.slot}_holdout_percent": 100 * one.change for one in held_out}
    return [Statement("own_slot", text, figures | extremes(own))]


def other_slots(others: Sequence[Change]) -> list[Statement]:
    """Statements on losses outside the fine-tuned slots, if there are others."""
    if not others:
        return []
    rose = sum(one.change > ERRORS * one.stderr for one in others)
    fell = sum(one.change < -ERRORS * one.stderr for one in others)
    text = (
        f"Of the losses of other slots, {rose} of {len(others)} rise and {fell} fall by more than {ERRORS:g} standard "
        f"errors. They change by {span(others)}."
    )
    return [Statement("other_slots", text, {"losses": len(others), "rose": rose, "fell": fell} | extremes(others))]


def extremes(changes: Sequence[Change]) -> dict[str, float]:
    """Smallest and largest change, in percent."""
    percents = [100 * one.change for one in changes]
    return {"least_percent": min(percents), "most_percent": max(percents)}


def span(changes: Sequence[Change]) -> str:
    """Format the range from the smallest to the largest change."""
    least, most = (choose(changes, key=lambda one: one.change) for choose in (min, max))
    ends = [f"{signed(100 * one.change)} %" for one in (least, most)]
    return ends[0] if len(changes) == 1 else f"{ends[0]} to {ends[1]}"
