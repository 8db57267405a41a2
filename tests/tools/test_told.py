"""A study's prose, filled in from made-up results."""

from pathlib import Path

import pytest

from unequal.errors import UserError
from unequal.files import write_csv, write_json
from unequal.tools.told import figure, told

ONE = {"word": "better", "change": -0.0089, "low": -0.0126, "high": -0.0052, "visible": 0.01, "visible_by_own": 0.1}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    statement = {"key": "curvature", "subject": "", "text": "It is 76 ± 16 and not 0.81."}
    endpoints = {"fid": {"comparisons": {"one against other": ONE}, "deviations": {"one": 0.0465}}}
    found = {"endpoints": endpoints, "calls": {"7": {"heun": ONE}}, "sections": [{"statements": [statement]}]}
    write_json(folder / "findings.json", found)
    rows = [(8, 100, 0.1), (8, 100, 0.5), (8, 200, -0.8), (8, 200, -1.0), (32, 100, 5.0)]
    write_csv(folder / "trainings.csv", [dict(zip(("batch", "images", "gain"), row, strict=True)) for row in rows])
    return folder


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("fid: one against other", "−0.89 %"),
        ("fid: one against other | interval", "−1.26 % … −0.52 %"),
        ("fid: one against other | said", "−0.89 %, better"),
        ("fid: one against other | whole", "−0.89 % (−1.26 % … −0.52 %), better"),
        ("fid: one against other | promised", "+1.01 % or −1.00 %"),
        ("fid: one against other | seen", "+10.5 % or −9.52 %"),
        ("calls.7: heun | word", "better"),
        ("findings.json: endpoints.fid.deviations.one | share", "4.65 %"),
        ("trainings.csv: batch=32: images | whole", "100"),
        ("trainings.csv: batch=8, images=100: gain", "0.30 ± 0.28"),
        ("trainings.csv: batch=8, images=100: gain | estimate", "+30.0 % (−224.1 % … +284.1 %)"),
        ("trainings.csv: batch=8, images=100: gain | relative", "+35.0 %"),
        ("trainings.csv: batch=8, images=100: gain | visible", "+35.0 % or −25.9 %"),
        ("trainings.csv: batch=8, images=*: gain | least change", "−90.0 %"),
        ("trainings.csv: batch=8, images=*: gain | most number", "0.3"),
        ("trainings.csv: batch=8, images=*: gain | largest size", "90.0 %"),
        ("trainings.csv: batch=*, images=100: images | most amount", "100"),
        ("trainings.csv: all: images | hours", "0.2"),
        ("curvature says 76 ± 16", "76 ± 16"),
    ],
)
def test_a_figure_is_what_the_results_say(results: Path, asked: str, text: str):
    assert figure(asked, results) == text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("fid: other against one", "findings.json: nothing is said of it"),
        ("kid: one against other", "findings.json: nothing is said of it"),
        ("fid: one against other | loud", "'loud' is no form; allowed: change, interval, word"),
        ("findings.json: endpoints.fid.delta", "findings.json: no number at endpoints.fid.delta"),
        ("trainings.csv: batch=9: gain", "trainings.csv: no row with batch=9"),
        ("trainings.csv: batch=8: loss", "trainings.csv: no number in every such row ('loss')"),
        ("trainings.csv: batch=8, images=*: gain", "several groups of rows; choose one by least, most, largest"),
        ("trainings.csv: batch=32: gain | estimate", "at least two data points"),
        ("nothing.csv: batch=8: gain", "nothing.csv: missing"),
        ("curvature says 6 ± 16", "the statement 'curvature' is not so: It is 76 ± 16"),
        ("curvature says 0.8", "the statement 'curvature' is not so"),
        ("barrier says 6", "the statement 'barrier' is not so: there is none"),
        ("fid", "no figure; allowed: {endpoint: comparison}"),
    ],
)
def test_what_is_no_figure_is_refused_in_a_line_that_names_it(results: Path, asked: str, said: str):
    template = results.parent / "told.md"
    template.write_text(f"It is {{{asked}}}.", encoding="utf-8")
    with pytest.raises(UserError) as refusal:
        told(template, results)
    assert str(refusal.value).startswith(f"{template}: {{{asked}}}: ")
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_paragraphs_and_items_are_wrapped_and_numbers_keep_their_units(tmp_path: Path):
    template = tmp_path / "told.md"
    words = "word " * 22
    template.write_text(f"{words}\n1.5 % end\n\n- one {words} 2.00 ± 0.25 and\n  more\n- two\n", encoding="utf-8")
    lines = told(template, tmp_path).splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[1] == "1.5 % end" or lines[0].endswith("1.5 % end")
    assert [line[:5] for line in lines if line.startswith("- ")] == ["- one", "- two"]
    (continued,) = (line for line in lines if line.startswith("  "))
    assert "2.00 ± 0.25" in "\n".join(lines)
    assert continued.endswith("more")
