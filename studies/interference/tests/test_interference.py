"""Summaries, verdicts, tables and the picture of interference, on losses that were changed by known factors."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from studies.interference import claims, figures, tables
from studies.interference.findings import STEPS, Series, Summary, TrainedOn, TrainingFacts, attention, summarise
from unequal.diffusion.schedule import NoiseSchedule
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import normalised, tilt, uniform

T = 60
SLOTS = Partition([(0, 9), (10, 29), (30, 59)])
BASE = np.geomspace(1, 0.01, T)[:, None] * np.random.default_rng(0).uniform(0.9, 1.1, (T, 6))
#: Share of draws in the slots: the first and the second favoured, the third neglected.
NEAR_DATA = [0.4, 0.5, 0.1]


def changed(*percent: float, noise: float = 0.0) -> np.ndarray:
    """The base's losses, changed by so much in each slot; `noise` of the single draws apart."""
    factors = np.repeat(1 + np.array(percent) / 100, [10, 20, 30])[:, None]
    return BASE * (factors + np.random.default_rng(1).normal(0, noise, BASE.shape))


def series(*losses: np.ndarray, shares: list[list[float]] | np.ndarray, lr: float = 1e-3, steps: int = 200) -> Series:
    return Series("one", TrainingFacts(lr, steps, 10 * steps), losses, np.array(shares))


def percent(summary: Summary) -> list[float | None]:
    """The three means; none of these known changes has an error."""
    found = [summary.favoured, summary.neglected, summary.every]
    assert all(one is None or one.stderr < 1e-12 for one in found)
    return [None if one is None else 100 * one.value for one in found]


def found_with(
    losses: Mapping[str, np.ndarray],
    kinds: Mapping[str, str] | None = None,
    rates: Mapping[str, tuple[float, int]] | None = None,
) -> TrainedOn:
    """Findings with samplers of these kinds, and slot recipes with these learning rates and steps."""
    kinds, rates = kinds or {}, rates or {}
    probabilities = {
        "uniform": uniform(T),
        "stratified": uniform(T),
        "near_noise": normalised(tilt(T, 2.0)),
        "near_data": normalised(tilt(T, 2.0)[::-1]),
    }
    trainings = {name: TrainingFacts(1e-3, 200, 2000) for name in kinds}
    trainings |= {name: TrainingFacts(lr, steps, 10 * steps) for name, (lr, steps) in rates.items()}
    return TrainedOn(
        losses={name: {"train": table, "holdout": table} for name, table in {"base": BASE, **losses}.items()},
        floor=np.zeros((T, 0)),
        schedule=NoiseSchedule.linear(T),
        slots=SLOTS,
        slot_sets={"total": SLOTS},
        finetuned=(1, 2, 3),
        samplers={name: probabilities[kind] for name, kind in kinds.items()},
        trainings=trainings,
        kinds=dict(kinds),
        control="uniform",
        data={},
    )


def test_slots_are_favoured_that_are_drawn_more_often_than_uniformly() -> None:
    one = series(BASE, BASE, BASE, shares=[[1 / 6, 1 / 3, 1 / 2], NEAR_DATA, [0, 0, 1]])
    assert attention(one, SLOTS).tolist() == [[0, 0, 0], [1, 1, -1], [-1, -1, 1]]


def test_of_single_slots_the_summary_is_the_diagonal_and_all_else() -> None:
    losses = [changed(-10, 20, 30), changed(40, -20, 60), changed(0, 90, -30)]
    assert percent(summarise(series(*losses, shares=np.eye(3)), BASE, SLOTS)) == pytest.approx([-20, 40, 20])


def test_of_a_sampler_the_summary_goes_by_its_shares() -> None:
    tilted_one = summarise(series(changed(-10, -20, 50), shares=[NEAR_DATA]), BASE, SLOTS)
    assert percent(tilted_one) == pytest.approx([-15, 50, 20 / 3])
    even = summarise(series(changed(-10, -20, 50), shares=[[1 / 6, 1 / 3, 1 / 2]]), BASE, SLOTS)
    assert percent(even)[:2] == [None, None]
    assert tables.price_of(even) is None
    assert tables.price_of(tilted_one) == pytest.approx(50 / 15)


@pytest.mark.parametrize(
    ("near_noise", "noise", "expected"),
    [((40, 30, -20), 0.01, HELD), ((-40, -30, -20), 0.01, NOT_HELD), ((0.1, 0.1, -20), 0.5, UNDECIDED)],
)
def test_retraining_trades_one_end_for_the_other(near_noise: tuple[float, ...], noise: float, expected: str) -> None:
    found = found_with(
        {"uniform": BASE, "n": changed(*near_noise, noise=noise)}, {"uniform": "uniform", "n": "near_noise"}
    )
    verdict = next(one for one in claims.verdicts(found) if one.key == "n_trades")
    assert verdict.verdict == expected
    assert "near the noise lowers the loss there and raises it near the data" in verdict.claim


def test_what_is_neglected_is_held_against_the_control_and_not_the_base() -> None:
    """All of it falls, but under uniform timesteps it would have fallen further."""
    losses = {"uniform": changed(-30, -30, -30, noise=0.01), "d": changed(-40, -40, -5, noise=0.01)}
    found = {one.key: one for one in claims.verdicts(found_with(losses, {"uniform": "uniform", "d": "near_data"}))}
    assert found["d_trades"].verdict == NOT_HELD
    assert found["d_neglects"].verdict == HELD
    assert found["d_neglects"].figures["neglected_percent"] == pytest.approx(100 * (0.95 / 0.7 - 1), rel=0.02)


@pytest.mark.parametrize(("last", "expected"), [(-5, HELD), (5, NOT_HELD)])
def test_stratified_batches_must_lower_every_scale(last: float, expected: str) -> None:
    losses = {"uniform": BASE, "s": changed(-10, -10, last, noise=0.01)}
    found = claims.verdicts(found_with(losses, {"uniform": "uniform", "s": "stratified"}))
    assert [one.verdict for one in found if one.key == "s_lowers_all"] == [expected]


def slot_losses(recipe: str, harm: float) -> dict[str, np.ndarray]:
    """Each of three models harms the other two slots by so many percent."""
    rows = np.full((3, 3), harm)
    np.fill_diagonal(rows, -10)
    return {f"{recipe}_{slot}": changed(*row, noise=0.01) for slot, row in enumerate(rows, 1)}


@pytest.mark.parametrize(("harm", "expected"), [(40, HELD), (5, NOT_HELD)])
def test_harm_is_compared_per_step(harm: float, expected: str) -> None:
    """10 % in 100 steps at the low rate; at the high one 40 % or 5 % in 200 steps."""
    losses = slot_losses("slot", 10) | slot_losses("slot_high", harm)
    found = found_with(losses, rates={"slot_high": (1e-2, 200), "slot": (1e-3, 100)})
    (verdict,) = claims.verdicts(found)
    assert verdict.verdict == expected
    assert verdict.figures["slot_percent"] == pytest.approx(10, rel=0.1)
    assert verdict.figures["slot_high_percent"] == pytest.approx(harm / 2, rel=0.1)
    assert found.slot_recipes == ["slot", "slot_high"]


def test_rows_tell_changes_in_percent_and_per_step() -> None:
    found = found_with(slot_losses("slot", 50), rates={"slot": (1e-3, 200)})
    (row,) = tables.summary_rows(found.summaries())
    assert (row["trained_on"], row["steps"], row["images"]) == ("slot", 200, 2000)
    assert row["neglected_change_percent"] == pytest.approx(50, rel=0.05)
    assert row["neglected_percent_a_step"] == pytest.approx(row["neglected_change_percent"] / 200, rel=1e-3)
    assert row["neglected_stderr_a_image"] == pytest.approx(row["neglected_stderr_percent"] / 2000, rel=1e-3)
    matrix = tables.matrix_rows(found)
    assert len(matrix) == 2 * 3 * 3
    assert {(one["recipe"], one["split"]) for one in matrix} == {("slot", "train"), ("slot", "holdout")}


def test_the_table_leaves_out_what_there_is_not() -> None:
    found = found_with({"uniform": changed(-5, -5, -5)}, {"uniform": "uniform"})
    (row,) = tables.summary_table(found.summaries()).rows
    assert len(row) == len(tables.summary_table([]).columns)
    assert [cell == "–" for cell in row[3:]] == [True, True, False, True, True, True]


def test_the_picture_shows_changes_in_equally_many_steps() -> None:
    losses = [changed(-10, 20, 30), changed(40, -20, 60), changed(0, 90, -30)]
    summary = summarise(series(*losses, shares=np.eye(3), steps=400), BASE, SLOTS)
    figure = Figure(figsize=(8, 3), layout="constrained")
    FigureCanvasAgg(figure)
    partial(figures.summary_figure, summaries=[summary])(figure)
    shown = {str(bar.get_label()): bar.lines[0].get_xdata()[0] for bar in figure.axes[0].containers}  # type: ignore[attr-defined]
    scale = STEPS / 400
    assert shown["favoured slots"] == pytest.approx(-20 * scale)
    assert shown["neglected slots"] == pytest.approx(40 * scale)


def test_every_picture_has_its_words() -> None:
    heading, text = figures.caption("interference_slot_high")
    assert heading == "Interference of slots: recipe slot high"
    assert "Framed" in text
    assert "steps" in figures.caption("interference_summary")[1]
