"""Figures on the pages are those of the committed results."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import README, ROOT, named, prose

from benchmarks.kill import PAGE, RECORDED, told
from benchmarks.table import table
from unequal.errors import UserError
from unequal.evidence.words import BETTER, NOT_TESTABLE, SAME, UNDECIDED, WORSE
from unequal.files import read_json, write_json
from unequal.report.formatting import percent
from unequal.tools.readme import filled, filled_findings, filled_readme, filled_study, telling

FINDINGS = ROOT / "docs/findings.md"
#: Characters of README.md at most: what a newcomer reads in one go.
README_CHARACTERS = 10_000
#: Words that judge a method, which one training cannot.
JUDGING = re.compile(
    r"\b(better|worse|pays?|paid|held(?![- ]out)|wins?|won|beats?|beaten|outperforms?|superior|inferior|improves?)\b",
    re.IGNORECASE,
)
#: Names of studies that a page links to.
STUDY = re.compile(r"\(\.\./studies/([\w/]+)\)")
#: A number with a sign or decimals: what was measured, and no number of pixels or of bases.
FIGURE = re.compile(r"(?<![\w.])(?:[+−]\d+(?:\.\d+)?|\d+\.\d+)")
#: Any number, but no digit of a name such as x0 or a paper's.
NUMBERS = re.compile(r"(?<![\w.])(?<!paper )[−-]?\d[\d,]*(?:\.\d+)?(?![\w.]*\d)")
#: A number, but no digit of a name such as x0.
NUMBER = re.compile(r"(?<![\w.])\d")


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8")) <= README_CHARACTERS


def test_readme_shows_the_figures_of_the_committed_run():
    text = README.read_text(encoding="utf-8")
    assert text == filled_readme(text, ROOT / "results", ROOT / "params.yaml"), "run: python -m unequal.tools.readme"


def came_out(page: Path) -> str:
    """A page's section of results."""
    return page.read_text(encoding="utf-8").split("## What came out")[1].split("\n## ")[0]


def test_every_number_of_what_came_out_is_filled_in_from_the_results():
    written = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", came_out(README), flags=re.DOTALL)
    assert "<!--" not in written
    assert [line for line in written.splitlines() if NUMBER.search(line)] == []
    assert not re.search(r"\b(two|three|four|five|six|seven|eight|nine|ten|twice|half|halves)\b", written)


#: README and all pages but that on speed, which benchmarks measure many times.
JUDGED = [README, *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "performance.md")]


@pytest.mark.parametrize("page", JUDGED, ids=named)
def test_no_method_is_judged_but_by_the_findings_of_a_study(page: Path):
    findings = [file.read_text(encoding="utf-8") for file in (ROOT / "studies").rglob("results/**/findings.json")]
    borne_out = {word.lower() for text in findings for word in JUDGING.findall(text)}
    text = re.sub(r"`[^`]*`", "", prose(page))
    assert {word.lower() for word in JUDGING.findall(text)} <= borne_out


def test_the_page_of_findings_shows_the_words_of_the_studies():
    text = FINDINGS.read_text(encoding="utf-8")
    assert text == filled_findings(text, ROOT / "studies"), "run: python -m unequal.tools.readme"


def sections_of_findings() -> dict[str, str]:
    """Study → what is written of it besides its own words, of all that were run."""
    parts = FINDINGS.read_text(encoding="utf-8").split("## What was found")[1].split("\n## ")[0].split("\n### ")[1:]
    return {
        STUDY.findall(one)[0]: re.sub(r"<!-- ([\w/]+) -->.*?<!-- /\1 -->", "", one, flags=re.DOTALL) for one in parts
    }


#: Prose of studies, whose figures are filled in.
TEMPLATES = sorted(one for name in ("told", "summary") for one in (ROOT / "studies").rglob(f"{name}.md"))


@pytest.mark.parametrize("page", telling(ROOT / "studies"), ids=named)
def test_a_study_tells_what_its_results_say(page: Path):
    text = page.read_text(encoding="utf-8")
    assert text == filled_study(text, page.parent), "run: python -m unequal.tools.readme"
    assert not re.search(r"\d", re.sub(r"`[^`]*`", "", re.split(r"<!-- /\w+ -->", text)[-1].split("## Run it")[0]))


def test_all_that_is_found_is_filled_in():
    """Behind a heading there are a link and what was planned: neither a word of the study nor a figure of it."""
    for study, text in sections_of_findings().items():
        _, *rest = text.strip().splitlines()
        assert not FIGURE.search(" ".join(rest)), study
        assert unborne(ROOT / "studies" / study, " ".join(rest)) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=named)
def test_a_number_in_prose_that_is_not_filled_in_is_a_setting(template: Path):
    """The size of a batch, say; all that was measured is filled in from the results by what it is called."""
    text = re.sub(r"\{[^{}]*\}|`[^`]*`|\]\([^)]*\)", "", template.read_text(encoding="utf-8"))
    settings = set(NUMBERS.findall((template.parent / "params.yaml").read_text(encoding="utf-8")))
    if (findings := template.parent / "results/findings.md").exists():
        (columns, *_) = (line for line in findings.read_text(encoding="utf-8").splitlines() if line.startswith("|"))
        settings |= set(NUMBERS.findall(columns))
    numbers = {found.replace(",", "").replace("−", "-") for found in NUMBERS.findall(text)}
    assert numbers - settings == set()


#: How prose says a word of a study.
SAID = {
    "better": BETTER,
    "ahead": BETTER,
    "worse": WORSE,
    "behind": WORSE,
    "undecided": UNDECIDED,
    "the same within": SAME,
    "not testable here": NOT_TESTABLE,
}
#: What two arms are the same within, in per cent.
WITHIN = re.compile(r"the same within (\d+(?:\.\d+)?) ?%")
#: Any of these.
WORD = re.compile(rf"\b(?:{'|'.join(SAID)})\b")
#: A change as pages tell it.
CHANGE = re.compile(r"[+−]\d+(?:\.\d+)? %")


def judged_changes(document: Any, delta: float = math.nan) -> Iterator[tuple[str, tuple[str, float]]]:
    """Every change that a study has judged, as text, with its word, and with δ in per cent where it is the same."""
    if isinstance(document, dict):
        delta = document.get("delta", delta)
        if {"confirmed", "endpoints"} <= document.keys():  # δ of what is confirmed are those of the endpoints
            deltas = {name: {"delta": one["delta"]} for name, one in document["endpoints"].items()}
            told = {name: deltas[name] | {"again": one} for name, one in document["confirmed"].items()}
            document = document | {"confirmed": told}
        if {"word", "change"} <= document.keys():
            same = 100 * delta if document["word"] == SAME else 0.0
            yield percent(document["change"], sign=True), (document["word"], same)
        for one in document.values():
            yield from judged_changes(one, delta)


def sentences(prose: str) -> list[str]:
    """Of a page, without tables, code and links' targets."""
    text = re.sub(r"`[^`]*`|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", prose)
    text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE).replace("*", "")
    paragraphs = (" ".join(one.split()) for one in re.split(r"\n\s*\n|\n- ", text))
    return [one for each in paragraphs for one in re.split(r"(?<=[.:;])\s+(?=[A-Z])", each)]


def clauses(sentence: str) -> Iterator[tuple[str, list[str]]]:
    """The parts of a sentence, up to where one has both a word and a change: its text and its changes.

    Parts end behind a bracket and at a semicolon: "FID is undecided (+3 %), and the loss better (−1 %)".
    """
    text = ""
    for part in re.split(r"(?<=\)),?\s|;\s", sentence):
        text = f"{text} {part}".strip()
        if WORD.search(text) and (changes := CHANGE.findall(text)):
            yield text, changes
            text = ""
    if WORD.search(text):
        yield text, []


def unborne(study: Path, prose: str) -> list[str]:
    """Parts of sentences whose words are not those that the study says of their changes."""
    judged: dict[str, set[tuple[str, float]]] = {}
    for change, found in judged_changes(read_json(study / "results/findings.json")):
        judged.setdefault(change, set()).add(found)
    wrong = []
    for text, changes in (one for sentence in sentences(prose) for one in clauses(sentence)):
        said = {SAID[one] for one in WORD.findall(text)}
        told = [judged[one] for one in changes if one in judged]
        words = [{word for word, _ in one} for one in told]
        deltas = {delta for one in told for word, delta in one if word == SAME}
        within = all(any(math.isclose(float(one), delta) for delta in deltas) for one in WITHIN.findall(text))
        if not within or not all(one & said for one in words) or not said <= set().union(*words):
            wrong.append(text)
    return wrong


#: Studies that say words of comparisons.
WITH_WORDS = sorted(file.parents[1] for file in (ROOT / "studies").rglob("results/findings.md"))


def between(page: Path, place: str) -> str:
    """What a page has in a place."""
    return page.read_text(encoding="utf-8").split(f"<!-- {place} -->")[1].split(f"<!-- /{place} -->")[0]


def told_of(study: Path) -> str:
    """The prose about a study, of its README and of the page of findings."""
    path = study.relative_to(ROOT / "studies")
    readme = ROOT / "studies" / path.parts[0] / "README.md"
    filled_in = (study / "results/findings.md").read_text(encoding="utf-8").strip()
    section = between(readme, path.name) if path.parts[1:] else came_out(readme)
    return "\n\n".join(one.replace(filled_in, "") for one in (section, between(FINDINGS, path.as_posix())))


@pytest.mark.parametrize("study", WITH_WORDS, ids=lambda study: study.name)
def test_every_word_in_prose_stands_beside_a_change_that_it_was_said_of(study: Path):
    assert unborne(study, told_of(study)) == []


def test_a_word_that_nothing_bears_out_is_seen(tmp_path: Path):
    told = {"one": {"word": BETTER, "change": -0.089}, "other": {"word": UNDECIDED, "change": 0.02}}
    write_json(tmp_path / "results/findings.json", {"endpoints": {"fid": {"comparisons": told}}})
    for right in ("It is better, by −8.90 %.", "One is better (−8.90 %), the other undecided (+2.00 %)."):
        assert unborne(tmp_path, right) == []
    for wrong in ("It is worse, by −8.90 %.", "It is better.", "It is better, by −8.80 %."):
        assert unborne(tmp_path, wrong) == [wrong]


def test_arms_are_the_same_within_nothing_but_what_was_settled(tmp_path: Path):
    told = {"one": {"word": SAME, "change": 0.004}}
    write_json(tmp_path / "results/findings.json", {"endpoints": {"fid": {"delta": 0.1, "comparisons": told}}})
    for right in ("Both are the same within 10 % (+0.40 %).", "Both are the same within δ (+0.40 %)."):
        assert unborne(tmp_path, right) == []
    assert unborne(tmp_path, wrong := "Both are the same within 1 % (+0.40 %).") == [wrong]


def test_a_word_that_stands_beside_another_change_of_the_sentence_is_seen(tmp_path: Path):
    told = {"one": {"word": BETTER, "change": -0.089}, "other": {"word": UNDECIDED, "change": 0.02}}
    write_json(tmp_path / "results/findings.json", {"endpoints": {"fid": {"comparisons": told}}})
    exchanged = "One is undecided (−8.90 %), the other better (+2.00 %)."
    assert unborne(tmp_path, exchanged) == ["One is undecided (−8.90 %)", "the other better (+2.00 %)."]
    assert unborne(tmp_path, "Both are better (−8.90 %, +2.00 %).") == ["Both are better (−8.90 %, +2.00 %)."]


@pytest.mark.parametrize("study", WITH_WORDS, ids=lambda study: study.name)
def test_no_word_in_prose_could_be_exchanged_for_another(study: Path):
    """Each is held against the figures beside it, so that a slip of the pen cannot pass."""
    for sentence in sentences(told_of(study)):
        for found in WORD.finditer(sentence):
            for other in (one for one in SAID if SAID[one] != SAID[found[0]]):
                assert unborne(study, sentence[: found.start()] + other + sentence[found.end() :]), (sentence, other)


def test_a_page_without_the_place_is_refused():
    with pytest.raises(UserError, match="no place of that name"):
        filled("<!-- results -->\n1\n<!-- /other -->", "results", "2")


def test_the_page_on_performance_shows_the_recorded_benchmarks():
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    assert table("cpu", ROOT / "results/benchmarks") in page, "run: python -m benchmarks.table"


def test_pages_say_how_long_the_recorded_first_run_took():
    first = read_json(ROOT / "results/benchmarks/first_run.json")
    seconds = first["seconds"]
    minutes = round(seconds["all"] / 60)
    assert f"It took {minutes} minutes on two cores" in README.read_text(encoding="utf-8")
    names = {"stages' starts": "starts", "stages' work": "work", "stages' ends": "the rest"}
    parts = ", ".join(
        f"{names.get(part, part)} {100 * one / seconds['all']:.0f} %" for part, one in seconds.items() if part != "all"
    )
    page = " ".join((ROOT / "docs/performance.md").read_text(encoding="utf-8").split())
    assert f"it took {minutes} minutes for {first['stages']} stages: {parts}" in page
    assert first["cores"] == 2


def test_the_page_on_resuming_shows_the_recorded_kills():
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    kills = read_json(ROOT / RECORDED)
    assert page == filled(page, "kills", told(kills)), "run: python -m benchmarks.kill"
    assert kills["differing_files"] == []


def test_pictures_are_few():
    assert len(re.findall(r"!\[", README.read_text(encoding="utf-8"))) == 1
    assert Path(ROOT / "results/pictures/loss_profile.png").is_file()
