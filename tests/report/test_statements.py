"""Sentences of one run, and their file."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.report.statements import Difference, Section, Statement, findings_document

logarithms = st.floats(-3, 3)


def test_a_difference_is_written_in_percent_with_its_interval() -> None:
    # e^ln(0.75) − 1 = −25 %, from 0.75/1.2 to 0.75 · 1.2.
    found = Difference(math.log(0.75), math.log(1.2))
    assert found.text() == "−25.0 % (−37.5 to −10.0 %)"
    assert Difference(0.05, 0.06).text() == "+5.1 % (−1.0 to +11.6 %, not distinguishable)"
    assert Difference(0.05, None).text() == "+5.1 % (interval unknown, not distinguishable)"
    assert found.percents() == pytest.approx({"change": -25, "low": -37.5, "high": -10})


@given(logarithms, st.floats(0, 3))
def test_two_models_are_distinguishable_where_the_interval_leaves_out_none(log_ratio: float, resolution: float) -> None:
    found = Difference(log_ratio, resolution)
    assert found.interval is not None
    low, high = found.interval
    assert found.distinguishable == (low > 0 or high < 0)
    assert Difference(-log_ratio, resolution).distinguishable == found.distinguishable


def test_the_file_has_all_numbers_flat_on_top() -> None:
    sections = [Section("What?", "lead", [Statement("mixed", "text", {"fid": 1.5}, "mixed"), Statement("other", "so")])]
    document = findings_document(sections)
    assert {name: one for name, one in document.items() if not isinstance(one, list)} == {"mixed_fid": 1.5}
    assert document["sections"][0]["statements"][0] == {"key": "mixed", "subject": "mixed", "text": "text"}
    json.dumps(document, allow_nan=False)
