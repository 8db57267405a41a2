"""Searches in the report, beside random schemes."""

from unequal.report.pipeline_tables import SEARCH_COLUMNS as COLUMNS
from unequal.report.pipeline_tables import searches_table

SEARCHED = {"candidates": 8, "loss": 0.1, "fresh_loss": 0.12}


def test_a_search_stands_beside_as_many_random_schemes_on_fresh_draws() -> None:
    (row,) = searches_table({3: SEARCHED | {"control_fresh_loss": 0.15}}).rows
    assert row == ("3", "8", "0.1", "0.12", "0.15", "−20.0 %")
    assert len(row) == len(COLUMNS)


def test_without_a_control_nothing_is_said_of_what_a_search_has_gained() -> None:
    (row,) = searches_table({0: SEARCHED}).rows
    assert row == ("0", "8", "0.1", "0.12", "–", "–")
