"""A study's prose with its figures filled in: a sentence names what it tells of, and the study's results say how much.

In told.md, which becomes a part of the study's README.md, and summary.md, which becomes a part of docs/findings.md:

- `{fid: snr against joint | whole}` is a comparison of findings.json, in one of `COMPARED`'s forms, the change where
  none is named;
- `{groups.csv: arm=snr, first=0: log_change | relative}` is a column of the rows for which that holds, in one of
  `MEASURED`'s forms; with `images=*` the rows are grouped by `images`, and `least`, `most` or `largest` chooses a group
  by its mean: `{gradients.csv: arm=batch_8, images=*: between_share | least estimate}`;
- `{pilot.json: endpoints.fid.upper_deviation | share}` is a number of a file, told in the same forms;
- `{curvature says 76 ± 16}` is what stands word for word in the statement of that key in findings.json.
"""

import csv
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import StatisticsError, fmean, stdev
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from unequal.artifacts.figures import Figures, read_figures
from unequal.errors import UserError
from unequal.files import require
from unequal.report.formatting import either_way, mean_and_sd, percent, with_prefix

FIGURE = re.compile(r"\{([^{}]+)\}")
WIDTH = 120


def estimate(values: Sequence[float]) -> str:
    """A mean share in per cent, with its 95 % interval by Student's t, as of one value a block."""
    mean, scale = fmean(values), stdev(values) / len(values) ** 0.5
    low, high = (percent(float(end), sign=True) for end in student_t.interval(0.95, len(values) - 1, mean, scale))
    return f"{percent(mean, sign=True)} ({low} … {high})"


#: How a comparison is told.
COMPARED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "change": lambda one: percent(one["change"], sign=True),
    "interval": lambda one: f"{percent(one['low'], sign=True)} … {percent(one['high'], sign=True)}",
    "word": lambda one: str(one["word"]),
    "promised": lambda one: either_way(one["visible"]),
    "seen": lambda one: either_way(one["visible_by_own"]),
    "said": lambda one: f"{percent(one['change'], sign=True)}, {one['word']}",
    "whole": lambda one: f"{COMPARED['change'](one)} ({COMPARED['interval'](one)}), {one['word']}",
}
#: How measured values are told, most of them by their mean.
MEASURED: dict[str, Callable[[Sequence[float]], str]] = {
    "spread": mean_and_sd,
    "amount": lambda values: with_prefix(fmean(values)),
    "number": lambda values: f"{fmean(values):.3g}",
    "whole": lambda values: f"{round(fmean(values)):,}",
    "share": lambda values: percent(fmean(values)),
    "size": lambda values: percent(abs(fmean(values))),
    "change": lambda values: percent(fmean(values), sign=True),
    "visible": lambda values: either_way(fmean(values)),
    "relative": lambda values: percent(float(np.expm1(fmean(values))), sign=True),
    "hours": lambda values: f"{sum(values) / 3600:.1f}",
    "estimate": estimate,
}


#: Which of several groups of rows is told of.
CHOSEN: dict[str, Callable[[Sequence[Sequence[float]]], Sequence[float]]] = {
    "least": lambda groups: min(groups, key=fmean),
    "most": lambda groups: max(groups, key=fmean),
    "largest": lambda groups: max(groups, key=lambda values: abs(fmean(values))),
}


class Statements(Figures):
    """The sections of a findings.json that makes statements."""

    sections: list[dict[str, Any]]


def told(template: Path, results: Path) -> str:
    """A template with its figures, wrapped. Raises UserError where one is not to be had."""
    return wrapped(with_figures(require(template).read_text(encoding="utf-8"), results, template))


def with_figures(text: str, results: Path, source: Path) -> str:
    """A text of a source with its figures. Raises UserError where one is not to be had."""

    def one(found: re.Match[str]) -> str:
        asked = " ".join(found[1].split())
        try:
            return figure(asked, results)
        except (UserError, KeyError, ValueError, StatisticsError) as error:
            raise UserError(f"{source}: {{{asked}}}: {error or type(error).__name__}") from None

    return FIGURE.sub(one, text)


def figure(asked: str, results: Path) -> str:
    """What stands in the place of `{asked}`. Raises UserError where there is no such figure or form."""
    key, says, words = asked.partition(" says ")
    if says:
        return quoted(key, words, results)
    what, _, form = (part.strip() for part in asked.partition("|"))
    file, *rest = (part.strip() for part in what.split(":"))
    if file.endswith(".csv") and len(rest) == 2:
        return measured(column(results / file, rest[0], rest[1]), form or "spread")
    if file.endswith(".json") and len(rest) == 1:
        return measured([[number(results / file, rest[0])]], form or "number")
    if len(rest) == 1:
        return one_of(COMPARED, form or "change")(compared(file, rest[0], results))
    allowed = "{endpoint: comparison}, {file.csv: rows: column}, {file.json: key.key}, {statement says words}"
    raise UserError(f"no figure; allowed: {allowed}")


def one_of(forms: Mapping[str, Callable[[Any], str]], form: str) -> Callable[[Any], str]:
    """A form of that name. Raises UserError where there is none."""
    if form not in forms:
        raise UserError(f"'{form}' is no form; allowed: {', '.join(forms)}")
    return forms[form]


def compared(place: str, comparison: str, results: Path) -> Mapping[str, Any]:
    """A comparison by an endpoint, or below keys of findings.json that dots part. Raises UserError where none is."""
    path = results / "findings.json"
    found = read_figures(path, Figures)
    keys = ["endpoints", place, "comparisons"] if place in found.get("endpoints", {}) else place.split(".")
    one = below(found, [*keys, comparison])
    if not isinstance(one, dict) or "change" not in one:
        raise UserError(f"{path}: nothing is said of it; make the study's report again")
    return one


def below(found: Any, keys: Sequence[str]) -> Any:
    """What lies below keys; None where nothing does."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def number(path: Path, place: str) -> float:
    """A number below keys that dots part. Raises UserError where none is."""
    found = below(read_figures(path, Figures), place.split("."))
    if not isinstance(found, int | float):
        raise UserError(f"{path}: no number at {place}")
    return float(found)


def quoted(key: str, words: str, results: Path) -> str:
    """Words of a statement. Raises UserError where it does not have them."""
    sections = read_figures(results / "findings.json", Statements)["sections"]
    texts = [one["text"] for part in sections for one in part["statements"] if one["key"] == key]
    if not any(re.search(rf"(?<![\w.]){re.escape(words)}(?![\w])", text) for text in texts):
        raise UserError(f"the statement '{key}' is not so: {' '.join(texts) or 'there is none'}")
    return words


def column(path: Path, rows: str, name: str) -> list[list[float]]:
    """Values of a column, by groups of rows. Raises UserError where no row or no number is there."""
    asked = dict(part.strip().split("=", 1) for part in rows.split(",") if "=" in part)
    with require(path).open(encoding="utf-8", newline="") as file:
        chosen = [row for row in csv.DictReader(file) if all(row.get(k) == v for k, v in asked.items() if v != "*")]
    groups: dict[tuple[Any, ...], list[float]] = {}
    try:
        for row in chosen:
            groups.setdefault(tuple(row[k] for k, v in asked.items() if v == "*"), []).append(float(row[name]))
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: no number in every such row ({error})") from None
    if not groups:
        raise UserError(f"{path}: no row with {rows}")
    return list(groups.values())


def measured(groups: Sequence[Sequence[float]], form: str) -> str:
    """Values as text, those of one group. Raises UserError where several are there and none is chosen."""
    which, _, rest = form.partition(" ")
    if which in CHOSEN:
        return one_of(MEASURED, rest or "spread")(CHOSEN[which](groups))
    if len(groups) > 1:
        raise UserError(f"several groups of rows; choose one by {', '.join(CHOSEN)}")
    return one_of(MEASURED, form)(groups[0])


def wrapped(text: str) -> str:
    """Paragraphs and items of lists in lines as long as the project's; numbers stay beside their units."""
    pieces = re.split(r"(\n\s*\n|\n(?=- ))", text.strip())
    return "".join(piece if piece.isspace() else wrapped_part(piece) for piece in pieces) + "\n"


def wrapped_part(part: str) -> str:
    """A paragraph or an item."""
    joined = re.sub(r" (?=[%…±×]|[kMG]\b)|(?<=[…±]) ", "\u00a0", " ".join(part.split()))
    indent = "  " if joined.startswith("- ") else ""
    filled = textwrap.fill(joined, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return filled.replace("\u00a0", " ")
