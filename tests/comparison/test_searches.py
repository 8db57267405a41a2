"""Tables of searches, from made-up trainings whose banks are known."""

import pytest
from grouped import BLOCKS, write_study

from unequal.comparison.searches import read_searches, search_rows, search_tables
from unequal.comparison.settings import Comparison
from unequal.runtime.files import read_json, write_json

ASKED = {"requests": 3, "seconds_a_round": 2.5, "prompt_tokens_a_round": 812.0, "completion_tokens_a_round": None}
#: (round, loss) of what was tried.
TRIED = [(0, 0.5), (0, 0.7), (1, 0.6), (2, 0.4), (2, 0.45)]


@pytest.fixture
def plan(tmp_path) -> Comparison:
    plan = write_study(tmp_path)
    bank = [{"round": r, "candidate": i, "proposer": "tpe", "loss": loss} for i, (r, loss) in enumerate(TRIED)]
    for block in BLOCKS:
        file = tmp_path / f"trainings/experts/block_{block}.json"
        figures = read_json(file)
        asked = {"language_model": ASKED | {"usd_a_round": None}} if block == 1 else {}
        figures["groups"][0]["pruning"] = {"method": "magnitude"}
        figures["groups"][1]["pruning"] = {"method": "proxy", "bank": bank, "fresh_loss": 0.43, **asked}
        write_json(file, figures)
    return plan


def test_rounds_show_the_best_loss_so_far_and_requests_their_means(tmp_path, plan):
    searches = read_searches(plan, tmp_path / "trainings")
    rounds, asking = search_tables(searches)
    assert [row[:3] for row in rounds.rows] == [("experts", str(block), "1") for block in BLOCKS]
    assert {row[3:] for row in rounds.rows} == {("5", "0.500, 0.500, 0.400", "0.430")}
    assert asking.rows == [("experts", "1", "1", "3", "2.50", "812", "–", "–")]
    rows = search_rows(searches)
    assert [(one["round"], one["loss"]) for one in rows] == TRIED * len(BLOCKS)


def test_without_a_search_there_is_no_table(tmp_path):
    assert search_tables(read_searches(write_study(tmp_path), tmp_path / "trainings")) == []
