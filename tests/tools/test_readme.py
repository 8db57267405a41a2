"""README's places, filled in from a made-up run."""

import re
from pathlib import Path
from typing import Any

import pytest

from unequal.errors import UserError
from unequal.files import read_json, write_csv, write_json
from unequal.report.statements import Section, Statement, findings_document
from unequal.tools.answers import answers
from unequal.tools.readme import filled_findings, findings, results_table


@pytest.fixture
def results(tmp_path: Path) -> Path:
    costs = {"images_seen": 160_000, "training_flops": 1.84e12, "sampling_flops": 191e6}
    rows = [
        {"variant": name, "fid": 2.5, "fid_sd": sd} | costs
        for name, sd in (("base", 0.25), ("slot_3", ""), ("mixed", ""))
    ]
    write_csv(tmp_path / "fid.csv", rows)
    others = {"fid_half": 1.0, "kid": 0.0, "precision": 1.0, "recall": 1.0}
    ends = {"real_against_real": {"fid": 0.5} | others, "noise_against_real": {"fid": 99.0} | others}
    write_json(tmp_path / "fid/reference.json", ends | {"real_sets": "made up"})
    differences = {"fid_change_percent": -22.54, "fid_low_percent": -31.2, "fid_high_percent": 120.0}
    sections = [
        Section("What?", "How.", [Statement("mixed", "against base.", differences, "mixed"), Statement("c", "Plain.")]),
        Section("Why?", "", [Statement("d", "because.", {}, "So")]),
    ]
    write_json(tmp_path / "findings.json", findings_document(sections))
    return tmp_path


def test_findings_are_the_reports_sentences_but_for_what_the_table_has(results: Path):
    assert findings(results) == "- Plain.\n- **So** because."


def test_the_table_leaves_out_slot_models_and_unknown_spreads(results: Path):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in results_table(results).splitlines()[2:]]
    assert [row[:2] for row in rows] == [
        ["base", "2.500 ± 0.250"],
        ["mixed", "2.500"],
        ["*real images, made up*", "0.500"],
        ["*noise against real images*", "99.000"],
    ]
    assert rows[0][2:] == ["160,000", "1.84 T", *5 * ["–"]]
    assert rows[1][4:] == ["base", "−22.5 % (−31.2 to +120)", "–", "–", "–"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("findings.json", '{"sections": 1}', "findings.json: sections: "),
        ("findings.json", '{"sections": [], "mixed_fid_change_percent": "a tenth"}', "mixed_fid_change_percent"),
        ("fid.csv", "variant,fid\nbase,much\n", "fid.csv: no table of scores (KeyError: 'fid_sd'); make it again"),
        ("fid.csv", "a,b\n1,2\n", "fid.csv: no table of scores (KeyError: 'variant'); make it again"),
        ("fid/reference.json", "{}", "fid/reference.json: real_against_real: "),
    ],
)
def test_results_that_are_none_are_told_in_a_line(results: Path, name: str, content: str, said: str):
    (results / name).write_text(content)
    with pytest.raises(UserError, match=rf"^[^\n]*{re.escape(said)}[^\n]*$"):
        results_table(results)


def study(folder: Path, **changes: Any) -> None:
    """What a made-up study of experts says."""
    one = {"word": "better", "change": -0.0089, "low": -0.0126, "high": -0.0052}
    judged = {"comparisons": {"snr against joint": one, "paper against joint": one | {"word": "undecided"}}}
    endpoints = {"loss_over_timesteps": judged | {"delta": 0.01}, "fid": judged | {"delta": 0.2}}
    found = {
        "data": "made up, 9 images, 8×8×3 values each",
        "parameters": 425_859,
        "images": 1.4e6,
        "blocks": [0, 1],
        "endpoints": endpoints,
    }
    write_json(folder / "experts/results/findings.json", found | changes)
    told = {"against one": "snr against joint", "with less": "paper against joint"}
    for name, paper in (("experts", "Paper 3"), ("other", "Paper 1")):
        claim = {"paper": paper, "told": told, "endpoints": ["loss_over_timesteps", "fid"]}
        write_json(folder / name / "claim.yaml", claim)  # JSON is YAML


def test_a_paper_has_a_sentence_with_interval_word_data_network_and_budget(tmp_path: Path):
    study(tmp_path)
    where, _, other, experts = answers(tmp_path).splitlines()
    assert where == "All on made up, 8×8×3, 426 k parameters:"
    assert "against one, −0.9 % (−1.3 to −0.5): better and −0.9 % (−1.3 to −0.5): better; with" in experts
    assert "/experts)), 1.40 M images, 2 blocks, held-out loss and FID: against one, −0.9" in experts
    assert other == "- **Paper 1** ([other](studies/other)): not run yet."


def test_data_and_network_stand_in_each_sentence_where_they_differ(tmp_path: Path):
    study(tmp_path)
    found = read_json(tmp_path / "experts/results/findings.json")
    write_json(tmp_path / "other/results/findings.json", found | {"parameters": 724_000})
    other, experts = answers(tmp_path).splitlines()
    assert (
        "/other)), on made up, 8×8×3, 724 k parameters, 1.40 M images, 2 blocks, held-out loss and FID: against"
        in other
    )
    assert (
        "/experts)), on made up, 8×8×3, 426 k parameters, 1.40 M images, 2 blocks, held-out loss and FID: against"
        in experts
    )


def test_arms_that_are_the_same_are_so_within_what_was_settled(tmp_path: Path):
    one = {"word": "the same", "change": -0.103, "low": -0.135, "high": -0.0701}
    judged = {"comparisons": {"snr against joint": one, "paper against joint": one}}
    study(tmp_path, endpoints={"loss_over_timesteps": judged | {"delta": 0.005}, "fid": judged | {"delta": 0.2}})
    *_, experts = answers(tmp_path).splitlines()
    assert "−10.3 % (−13.5 to −7.0): the same within 0.5 % and −10.3 %" in experts
    assert experts.endswith("and −10.3 % (−13.5 to −7.0): the same within 20 %.")


def test_what_a_study_does_not_say_is_told_in_a_line(tmp_path: Path):
    study(tmp_path, endpoints={"fid": {"comparisons": {}, "delta": 0.2}})
    with pytest.raises(
        UserError, match=r"findings.json: nothing is said of 'snr against joint' by loss_over_timesteps"
    ):
        answers(tmp_path)
    with pytest.raises(UserError, match=r"experts: nothing is told of it; allowed: a study that has been run"):
        filled_findings("<!-- experts -->\n<!-- /experts -->", tmp_path)
