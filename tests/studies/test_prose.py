"""Every figure on a study's page stands in that study's results or settings."""

import csv
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "studies").glob("*/README.md") if any(page.parent.rglob("findings.json")))
#: A number with decimals, in per cent, or with a prefix; no part of a word, a link or a name.
FIGURE = re.compile(r"(?<![\w./])([+−-]?)(\d[\d,]*(?:\.\d+)?)(?![\w.]*\d)(?: (%|M|k)(?!\w))?")
NUMBER = re.compile(r"(?<![\w.])[−+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\d)")
#: Factors from a value of the results to its figure, by unit.
SCALES = {"%": (100.0, 1.0), "M": (1e-6,), "k": (1e-3,), "": (1.0,)}


def values(study: Path) -> list[float]:
    """All numbers in the results and settings below a study's folder."""
    found: list[float] = []
    for file in (*study.rglob("params.yaml"), *study.rglob("results/*.*")):
        if file.suffix == ".csv":
            with file.open(encoding="utf-8") as lines:
                found += [value for row in csv.DictReader(lines) for value in numbers_of_row(row)]
        elif file.suffix in {".json", ".yaml"}:
            text = file.read_text(encoding="utf-8")
            found += numbers(json.loads(text) if file.suffix == ".json" else text)
    return found


def numbers_of_row(row: dict[str, str]) -> Iterator[float]:
    for name, text in row.items():
        for value in numbers(text):
            yield value
            if name == "log_change":
                yield math.expm1(value)


def numbers(document: Any) -> Iterator[float]:
    if isinstance(document, dict):
        for name, part in document.items():
            yield from numbers(part)
            if name == "visible":  # in the logarithm; a page says it as changes in either direction
                yield from (math.expm1(sign * value) for value in numbers(part) for sign in (1, -1))
    elif isinstance(document, list):
        for part in document:
            yield from numbers(part)
    elif isinstance(document, str):
        yield from (float(found.replace("−", "-")) for found in NUMBER.findall(document))
    elif isinstance(document, int | float):
        yield float(document)


def figures(text: str) -> Iterator[tuple[str, str, str]]:
    plain = re.sub(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)", "", text, flags=re.MULTILINE | re.DOTALL)
    for sign, digits, unit in FIGURE.findall(plain):
        if unit or "." in digits:
            yield sign.replace("−", "-"), digits.replace(",", ""), unit


def stands(figure: tuple[str, str, str], found: list[float]) -> bool:
    sign, digits, unit = figure
    shown, half = float(digits), 0.5 * 10.0 ** -len(digits.partition(".")[2])
    scales = SCALES[unit] if unit else (1.0, 100.0)  # the ends of an interval in per cent have no unit
    signed = [value for value in found if not sign or shown == 0 or (value < 0) == (sign == "-")]
    return any(abs(abs(value) * scale - shown) <= half * (1 + 1e-6) for value in signed for scale in scales)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_every_figure_of_a_page_stands_in_the_studys_results(page):
    found = sorted(set(values(page.parent)))
    shown = set(figures(page.read_text(encoding="utf-8")))
    assert len(shown) > 5
    assert sorted(one for one in shown if not stands(one, found)) == []
