"""Sentences of a report on measured differences, with their numbers.

The unit of evidence is a training. A run that trains each model once reports what it measured and how precisely, and
never which method is better; several trainings of each variant are what `unequal compare` judges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unequal.report.formatting import signed


class Difference(NamedTuple):
    """Difference ln(a/b) of one endpoint of two models, and half the width of its 95 % interval; None: unknown.

    A single run repeats sampling seeds or draws of images and noise, but not trainings: its interval covers measurement
    only, and there is no verdict.
    """

    log_ratio: float
    resolution: float | None

    @property
    def distinguishable(self) -> bool:
        """Say whether the interval excludes zero."""
        return self.resolution is not None and abs(self.log_ratio) > self.resolution

    @property
    def interval(self) -> tuple[float, float] | None:
        """Ends of the interval, as logarithms; None: unknown."""
        return None if self.resolution is None else (self.log_ratio - self.resolution, self.log_ratio + self.resolution)

    def percents(self) -> dict[str, float]:
        """Relative difference and its interval, in percent."""
        ends = {} if self.interval is None else dict(zip(("low", "high"), self.interval, strict=True))
        return {name: 100 * math.expm1(value) for name, value in ({"change": self.log_ratio} | ends).items()}

    def short(self) -> str:
        """Text of the change and its interval alone: `−23.2 % (−27.9 to −18.1)`."""
        change, *ends = map(signed, self.percents().values())
        return f"{change} % ({' to '.join(ends)})" if ends else f"{change} %"

    def text(self) -> str:
        """Text of the change and its interval, or that there is none: `−23.2 % (−27.9 to −18.1 %)`."""
        change, *ends = map(signed, self.percents().values())
        interval = f"{' to '.join(ends)} %" if ends else "interval unknown"
        return f"{change} % ({interval}{'' if self.distinguishable else ', not distinguishable'})"


@dataclass(frozen=True)
class Statement:
    """A sentence and its numbers.

    Attributes:
        key: short name, under which the numbers are stored.
        text: the sentence, without its subject.
        figures: numbers of the sentence, name → value.
        subject: beginning of the sentence, printed in bold; empty: `text` is the whole sentence.
    """

    key: str
    text: str
    figures: dict[str, float] = field(default_factory=dict)
    subject: str = ""


class Section(NamedTuple):
    """Statements below a heading; the lead applies to all of them."""

    heading: str
    lead: str
    statements: Sequence[Statement]


def findings_document(sections: Sequence[Section]) -> dict[str, Any]:
    """Convert sections to JSON: all numbers at the top level, where engines compare metrics, then the sentences."""
    numbers = {
        f"{one.key}_{name}": value
        for section in sections
        for one in section.statements
        for name, value in one.figures.items()
    }
    sentences = [
        {
            "heading": section.heading,
            "lead": section.lead,
            "statements": [{"key": one.key, "subject": one.subject, "text": one.text} for one in section.statements],
        }
        for section in sections
    ]
    return numbers | {"sections": sentences}
