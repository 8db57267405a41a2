"""Sentences that a report makes of measured differences, with their numbers.

The unit of evidence is a training. A run that trains each model once reports what it measured and how precisely, and
never which method is better. With replicas, verdicts follow from the trainings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unequal.report.formatting import signed
from unequal.statistics.verdicts import BETTER, WORSE


class Difference(NamedTuple):
    """ln(a/b) of one endpoint of two models, and half of its 95 % interval over what was repeated; None: unknown.

    One run repeats sampling seeds or draws of images and noise, never trainings: the interval is then the resolution of
    this run, and there is no word. Where trainings were repeated, the interval is over them.

    Attributes:
        word: what the trainings say (`unequal.statistics.verdicts`); None: there was one of each model.
    """

    log_ratio: float
    resolution: float | None
    word: str | None = None

    @property
    def told_apart(self) -> bool:
        """Whether the difference is larger than what this run resolves, or one by the words of its trainings."""
        if self.word is not None:
            return self.word in (BETTER, WORSE)
        return self.resolution is not None and abs(self.log_ratio) > self.resolution

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its ends, as logarithms; None where the resolution is unknown."""
        return None if self.resolution is None else (self.log_ratio - self.resolution, self.log_ratio + self.resolution)

    def percents(self) -> dict[str, float]:
        """The relative difference and its interval, in percent."""
        ends = {} if self.interval is None else dict(zip(("low", "high"), self.interval, strict=True))
        return {name: 100 * math.expm1(value) for name, value in ({"change": self.log_ratio} | ends).items()}

    def text(self) -> str:
        """As `−23.2 % (−27.9 to −18.1 %)`: the difference and in brackets its interval, behind the word if any."""
        change, *ends = map(signed, self.percents().values())
        if self.word is not None:
            return f"{self.word}, {change} % ({' to '.join(ends)} %)"
        resolution = f"{' to '.join(ends)} %" if ends else "resolution unknown"
        told = "" if self.told_apart else ", not told apart in this run"
        return f"{change} % ({resolution}{told})"


@dataclass(frozen=True)
class Statement:
    """A sentence, and the numbers in it.

    Attributes:
        key: short name, under which the figures are kept.
        text: the sentence, or what stands in it behind its subject.
        figures: its numbers, name → value.
        subject: what it begins with, where that is set off.
        drawn: the difference that is drawn beside the sentence, where one is.
    """

    key: str
    text: str
    figures: dict[str, float] = field(default_factory=dict)
    subject: str = ""
    drawn: Difference | None = None


class Section(NamedTuple):
    """Statements below a heading, and what holds of all of them."""

    heading: str
    lead: str
    statements: Sequence[Statement]


def findings_document(sections: Sequence[Section]) -> dict[str, Any]:
    """Sections as JSON: all numbers flat on top, where metrics are compared, then the sentences."""
    numbers = {
        f"{one.key}_{name}": value
        for section in sections
        for one in section.statements
        for name, value in one.figures.items()
    }
    told = [
        {
            "heading": section.heading,
            "lead": section.lead,
            "statements": [{"key": one.key, "subject": one.subject, "text": one.text} for one in section.statements],
        }
        for section in sections
    ]
    return numbers | {"sections": told}
