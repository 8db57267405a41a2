"""Verdicts, tables and pictures of the study tdc, on made-up plans whose answers are known."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from tdc_data import SCATTER, SEEDS, found

from studies.tdc.claims import CLAIMS, verdicts
from studies.tdc.stages.report_experts import drawings
from studies.tdc.tables import main_table, plan_rows, rounds_of, rounds_table, seconds_table
from unequal.reporting.figures import save
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED

pytestmark = pytest.mark.slow

#: Differences of FID that all seeds share decide; one below the seeds' scatter about it does not.
PAPER = {"tdc": 0.8, "unpruned": 0.7, "longer": 0.9}


def words(question: str, fids: dict[str, float]) -> dict[str, str]:
    return {one.key: one.verdict for one in verdicts(found(question, fids))}


def test_the_papers_order_is_held() -> None:
    assert words("overall", PAPER | {"single_stage": 2.0}) == {
        "unpruned_beats_base": HELD,
        "tdc_beats_base": HELD,
        "unpruned_beats_longer": HELD,
        "tdc_beats_longer": HELD,
        "two_stages_beat_one": HELD,
        "deciding_is_cheap": NOT_HELD,  # 1 of 10 seconds
    }


def test_the_reverse_is_not() -> None:
    reverse = words("overall", {"tdc": 1.2, "unpruned": 1.3, "longer": 1.1, "single_stage": 0.5})
    assert set(reverse.values()) == {NOT_HELD}


def test_what_scatters_about_the_base_is_undecided() -> None:
    # ± 0.01 about 0.99: the 95 % interval of the mean of three is ± 0.025.
    assert words("overall", PAPER | {"tdc": 0.99})["tdc_beats_base"] == UNDECIDED


def test_schedules_are_held_against_snr_one_by_one() -> None:
    fids = PAPER | {"constant": 0.9, "uniform_increasing": 0.7, "uniform_decreasing": 0.8, "excess_loss": 0.6}
    assert words("schedules", fids) == {
        "snr_beats_constant": HELD,
        "snr_beats_uniform_increasing": NOT_HELD,
        "snr_beats_uniform_decreasing": UNDECIDED,
        "excess_beats_snr": HELD,
    }


def test_numbers_of_groups() -> None:
    alike = PAPER | {"two": 0.705, "eight": 0.7, "sixteen": 0.71}
    assert words("groups", alike) == {"count_matters_little": HELD, "any_count_beats_none": HELD}
    apart = PAPER | {"two": 0.95, "eight": 1.2, "sixteen": 1.5}
    assert words("groups", apart) == {"count_matters_little": NOT_HELD, "any_count_beats_none": NOT_HELD}


def test_every_k() -> None:
    falling = PAPER | {"k30": 0.95, "k40": 0.9, "k60": 0.7, "k70": 0.6}
    assert words("ratios", falling) == {"every_k_beats_base": HELD, "larger_k_is_better": HELD}
    rising = PAPER | {"k30": 0.6, "k40": 0.7, "k60": 1.1, "k70": 1.2}
    assert words("ratios", rising) == {"every_k_beats_base": NOT_HELD, "larger_k_is_better": NOT_HELD}


def test_methods_within_tdc() -> None:
    fids = PAPER | {"random": 0.9, "magnitude": 0.8, "taylor": 0.7, "diff_pruning": 0.85}
    assert words("methods", fids) == {
        "proxy_beats_random": HELD,
        "proxy_beats_magnitude": UNDECIDED,
        "proxy_beats_taylor": NOT_HELD,
        "proxy_beats_diff_pruning": HELD,
        "every_method_beats_base": HELD,
    }


def test_pruning_alone() -> None:
    fids = {"proxy": 0.9, "random": 1.0, "magnitude": 1.0, "taylor": 1.0, "diff_pruning": 0.8, "scratch_long": 0.95}
    assert words("alone", fids) == {
        "proxy_beats_random": HELD,
        "proxy_beats_magnitude": HELD,
        "proxy_beats_taylor": HELD,
        "proxy_beats_diff_pruning": NOT_HELD,
        "pruned_keeps_fid": HELD,
        "pruning_beats_scratch": HELD,
        "rounds_improve": HELD,
        "search_beats_start": HELD,
    }
    # Three per cent of the base's FID are allowed, ten are not.
    assert words("alone", fids | {"proxy": 1.1})["pruned_keeps_fid"] == NOT_HELD


def test_budgets_are_compared_at_equal_images() -> None:
    fids = PAPER | {"longer_half": 0.95, "longer_double": 0.85, "unpruned_half": 0.8, "unpruned_double": 0.6}
    fids |= {"tdc_half": 1.2, "tdc_double": 1.2}
    # TDC: better at the middle budget, worse at two of three.
    assert words("budgets", fids) == {
        "unpruned_costs_less": HELD,
        "tdc_costs_less": NOT_HELD,
        "half_beats_double": HELD,
    }


def test_every_study_has_claims_with_a_key_of_its_own() -> None:
    for question in CLAIMS:
        keys = [one.key for one in verdicts(found(question, {}))]
        assert len(set(keys)) == len(keys) > 0


def test_the_table_says_what_a_plan_costs() -> None:
    table = main_table(found("ratios", PAPER | {"k30": 0.95}), "Plans")
    rows = {row[0]: row for row in table.rows}
    assert list(rows)[:4] == ["base", "TDC", "TDC without pruning", "base, trained on"]
    # Made up: every model of a pruned plan takes (1 + k)/2 of the base.
    assert rows["k = 0.3"][1:4] == ("0.950 ± 0.010", "650", "0.650")
    assert rows["TDC"][3] == "0.750"
    assert rows["TDC without pruning"][4] == "100 (400)"
    # 640 images of the base and 4 × 64 of stage 2.
    assert rows["TDC"][5] == "896"


def test_seconds_are_told_of_what_has_two_stages() -> None:
    table = seconds_table(found("overall", PAPER))
    assert [row[0] for row in table.rows] == ["TDC", "TDC without pruning", "single stage"]
    # Four groups at a second of pruning and nine of training each, whatever the seed.
    assert [float(cell.split(" ")[0]) for cell in table.rows[0][1:4]] == [4, 36, 40]


def test_rounds_are_told_without_their_start() -> None:
    proxy = found("alone", {})["proxy"]
    losses = rounds_of(proxy)
    assert losses.shape == (len(SEEDS), 3, 3)
    np.testing.assert_allclose(losses[0, 0], np.array([1.0, 0.9, 0.95]) + SCATTER[0])
    rows = rounds_table(proxy).rows
    # The least loss so far knows of the start, 0.8, which the first round does not reach.
    assert [row[3].split(" ")[0] for row in rows] == ["0.800", "0.750", "0.600"]
    assert [row[1].split(" ")[0] for row in rows] == ["0.950", "0.800", "0.650"]


def test_rows_of_the_csv_are_single_trainings() -> None:
    rows = plan_rows(found("schedules", PAPER))
    assert len(rows) == 7 * len(SEEDS)
    assert rows[0]["plan"] == "shared/tdc"
    assert [row["fid"] for row in rows[:3]] == pytest.approx([0.79, 0.8, 0.81])
    assert {row["groups_without_a_step"] for row in rows} == {1}


@pytest.mark.parametrize("question", CLAIMS)
def test_pictures_are_drawn(question: str, tmp_path: Path) -> None:
    for one in drawings(found(question, PAPER)):
        path = save(tmp_path / f"{one.name}.png", one.size, one.draw)
        assert imread(path).std() > 0.02
        assert one.heading
        assert one.caption.endswith(".")
