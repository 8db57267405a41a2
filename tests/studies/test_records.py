"""Studies are records: small, without code, with the commit that made them; their pages say what the results say."""

import csv
import json
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unequal.runtime.files import read_json

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
RECORDS = sorted(STUDIES.rglob("results/record.json"))
PAGES = sorted(STUDIES.glob("*/README.md"))
#: The fields of a record and their types.
FIELDS = {
    "commit": str,
    "other_commits": dict,
    "date": str,
    "versions": dict,
    "device": str,
    "hours": float | None,
    "hours_note": str,
    "data": dict,
    "images": int,
    "fid_of_real_images": float | None,
    "fid_slope_per_doubling": float | None,
}
#: At most that many files and bytes in a record.
FILES, BYTES = 12, 500_000
#: Heading of a table's column → endpoint.
ENDPOINTS = {
    "FID": "fid",
    "ε loss over timesteps": "loss_over_timesteps",
    "ε loss over log-SNR": "loss_over_log_snr",
    "x0 loss over log-SNR": "x0_loss_over_log_snr",
    "images to equal ε loss": "images_for_loss_over_timesteps",
    "images to equal FID": "images_for_fid",
    **{f"{calls} calls": f"fid_at_{calls}_calls" for calls in (7, 15, 31)},
}
CELL = re.compile(r"([+−][\d.]+) % \(([+−][\d.]+) to ([+−][\d.]+)\): (better|worse|undecided|the same within (\d+) %)")


def rows(name: str) -> list[dict[str, str]]:
    with (STUDIES / name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


VERDICTS = rows("verdicts.csv")


def named(path: Path) -> str:
    return path.relative_to(STUDIES).parts[0]


def git(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)


def folder_of(record: Path) -> Path:
    return record.parents[1].relative_to(ROOT)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: folder_of(path).as_posix())
def test_a_record_has_every_field(path):
    record = read_json(path)
    assert record.keys() == FIELDS.keys()
    assert [name for name, kind in FIELDS.items() if not isinstance(record[name], kind)] == []
    assert {"python", "torch", "diffusers"} <= record["versions"].keys()
    assert record["data"].keys() == {"source", "n", "shape", "sha256"}
    assert re.fullmatch(r"[0-9a-f]{64}", record["data"]["sha256"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: folder_of(path).as_posix())
def test_the_commits_of_a_record_hold_the_study_and_its_page_names_them(path):
    record, folder = read_json(path), folder_of(path)
    commits = (record["commit"], *record["other_commits"])
    page = (ROOT / "studies" / named(path) / "README.md").read_text(encoding="utf-8")
    assert all(f"`{commit[:10]}`" in page for commit in commits)
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("no history")
    assert [one for one in commits if git("cat-file", "-e", f"{one}:{folder}/params.yaml").returncode] == []


def test_records_are_small_and_hold_no_code():
    assert len(RECORDS) >= 15
    tracked = [ROOT / name for name in git("ls-files", "-z", "--", "studies").stdout.split("\0") if name]
    tracked = [file for file in tracked if file.exists()]
    code = {file.relative_to(STUDIES).parts[0] for file in tracked if file.suffix == ".py"}
    assert code <= {"latent", "__init__.py"}
    for page in PAGES:
        files = [file for file in tracked if file.is_relative_to(page.parent) and "results" in file.parts]
        assert 2 <= len(files) <= FILES, page
        assert sum(file.stat().st_size for file in files) <= BYTES, page


def test_verdicts_follow_from_test_and_delta_alone():
    assert len(VERDICTS) > 500
    for row in VERDICTS:
        change, p, same = (float(row[name]) for name in ("change", "p_difference", "p_same"))
        expected = "same" if same < 0.05 else ("better" if change < 0 else "worse") if p < 0.05 else "undecided"
        assert row["verdict"] == expected, row


def test_every_training_that_is_judged_is_listed():
    trained = {(row["study"], row["variant"]) for row in rows("trainings.csv")}
    judged = {(row["study"], row[side]) for row in VERDICTS for side in ("variant", "baseline")}
    assert {pair for pair in judged - trained if pair[0] != "few_steps"} == set()


def cells(page: Path) -> Iterator[tuple[str, str, str, bool, str]]:
    """Variant, baseline, endpoint, whether on fresh seeds, and text of each verdict in a page's tables."""
    head: list[str] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")] if line.startswith("|") else []
        if parts[:1] == ["variant"]:
            head = parts
        elif not parts:
            head = []
        elif head and "`" in parts[0]:
            baseline = parts[1].strip("`") if head[1] == "baseline" else "ddim_uniform"
            for column, text in zip(head, parts, strict=True):
                if column in ENDPOINTS and CELL.fullmatch(text):
                    yield parts[0].split("`")[1], baseline, ENDPOINTS[column], ", fresh" in parts[0], text


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_table_says_what_verdicts_csv_says(page):
    found = list(cells(page))
    for variant, baseline, endpoint, fresh, text in found:
        key = {"variant": variant, "baseline": baseline, "endpoint": endpoint}
        same = [
            row for row in VERDICTS if row["study"].split("/")[0] == page.parent.name and row.items() >= key.items()
        ]
        candidates = [row for row in same if (row["seeds"] == "fresh") == fresh]
        assert any(shows(text, row) for row in candidates), (page.parent.name, text, key)
    assert len(found) > 5 or page.parent.name in {"consistency", "latent", "race_pays"}


def shows(text: str, row: dict[str, str]) -> bool:
    match = CELL.fullmatch(text)
    assert match
    close = [
        abs(float(shown.replace("−", "-")) - 100 * float(row[name])) <= 0.501 * 10.0 ** -len(shown.partition(".")[2])
        for shown, name in zip(match.groups()[:3], ("change", "low", "high"), strict=True)
    ]
    verdict = "same" if match[5] else match[4]
    within = not match[5] or abs(float(match[5]) - 100 * float(row["delta"])) < 1e-9
    return all(close) and verdict == row["verdict"] and within


#: A number with decimals, in per cent, or with a prefix; no part of a word, a link or a name.
FIGURE = re.compile(r"(?<![\w./])([+−-]?)(\d[\d,]*(?:\.\d+)?)(?![\w.]*\d)(?: (%|M|k)(?!\w))?")
NUMBER = re.compile(r"(?<![\w.])[−+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\d)")
#: Factors from a value of the results to its figure, by unit.
SCALES = {"%": (100.0, 1.0), "M": (1e-6,), "k": (1e-3,), "": (1.0, 100.0)}


def values(study: Path) -> Iterator[float]:
    """All numbers in a study's results and settings, changes also as what their logarithm says."""
    for file in (*study.rglob("params.yaml"), *study.rglob("results/*.*")):
        if file.suffix in {".json", ".yaml", ".csv"}:
            text = file.read_text(encoding="utf-8")
            yield from numbers(json.loads(text) if file.suffix == ".json" else text.replace(",", " "))
    for name in ("verdicts.csv", "trainings.csv", "pilots.csv"):
        for row in rows(name):
            if row["study"].split("/")[0] == study.name:
                yield from (float(value) for value in row.values() if re.fullmatch(r"-?[\d.]+(e[+-]?\d+)?", value))
                if row.get("detectable"):
                    yield from (math.expm1(sign * float(row["detectable"])) for sign in (1, -1))


def numbers(document: Any) -> Iterator[float]:
    if isinstance(document, dict | list):
        for part in document.values() if isinstance(document, dict) else document:
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
    signed = [value for value in found if not sign or shown == 0 or (value < 0) == (sign == "-")]
    return any(abs(abs(value) * scale - shown) <= half * (1 + 1e-4) for value in signed for scale in SCALES[unit])


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_figure_of_a_page_stands_in_the_studys_results(page):
    found = sorted(set(values(page.parent)))
    shown = set(figures(page.read_text(encoding="utf-8")))
    assert len(shown) > 3
    assert sorted(figure for figure in shown if not stands(figure, found)) == []


def rows_on_studies() -> Iterator[Any]:
    for page in (ROOT / "README.md", ROOT / "docs/findings.md"):
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
            studies = re.findall(r"\]\((?:\.\./)?studies/(\w+)/README\.md", line)
            if line.startswith("|") and studies:
                yield pytest.param(line, studies, id=f"{page.stem}:{number + 1}")


@pytest.mark.parametrize(("line", "studies"), rows_on_studies())
def test_a_row_that_names_a_study_says_what_it_found(line, studies):
    found = sorted({value for study in studies for value in values(STUDIES / study)})
    signed = [figure for figure in figures(line) if figure[0]]
    assert [figure for figure in signed if not stands(figure, found)] == []
