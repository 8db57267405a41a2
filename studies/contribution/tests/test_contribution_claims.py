"""Claims on trainings whose truth is known, and tables that say what was put in."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from studies.contribution.claims import verdicts
from studies.contribution.findings import ModelRuns, Pair, Quality
from studies.contribution.tables import coefficient_rows, csv_rows, range_table
from unequal.diffusion.schedule import NoiseSchedule
from unequal.reporting.tables import plus_minus
from unequal.reporting.verdicts import HELD, NOT_HELD, UNDECIDED, Verdict

SCHEDULE = NoiseSchedule.linear(1000)
#: PSNR of each range, as the paper has them: the nearer to the data, the higher.
PAPER: dict[Pair, float] = {(1, 500): 40, (500, 1000): 20, (10, 100): 35, (100, 500): 25, (1, 10): 45}
ABOUT_RANGES = (
    "lower_half_matters_more",
    "below_100_matters_more",
    "nearest_range_is_best",
    "colours_come_from_late_steps",
)


def quality(psnr: float, seed: int, spread: float = 0.5) -> Quality:
    """Of 20 images; the colour shift falls as PSNR rises."""
    noise = np.random.default_rng(seed).normal(0, spread, 20)
    return Quality(psnr + noise, 10 * np.exp(-(psnr + noise) / 10))


def training(
    prediction: str = "epsilon", seed: int = 0, plain: float = 15, levels: dict[Pair, float] | None = None, **how: Any
) -> ModelRuns:
    chosen = PAPER if levels is None else levels
    windows = {(1 + 250 * i, 250 * (i + 1)): quality(40 - 5 * i, seed, **how) for i in range(4)}
    return ModelRuns(
        prediction,
        f"batch_8x1/seed_{seed}",
        100,
        10**9,
        quality(plain, seed, **how),
        {pair: quality(level, seed + 10 * i, **how) for i, (pair, level) in enumerate(chosen.items())},
        windows,
        quality(30, seed, **how),
    )


def decided(*trainings: ModelRuns, schedule: NoiseSchedule = SCHEDULE) -> dict[str, Verdict]:
    return {one.key: one for one in verdicts(trainings, schedule)}


def words(*trainings: ModelRuns) -> dict[str, str]:
    return {key: one.verdict for key, one in decided(*trainings).items()}


def test_where_all_is_as_the_paper_says_all_is_held() -> None:
    three = [training("epsilon", 0), training("v_prediction", 0, plain=20), training("sample", 0, plain=25)]
    assert set(words(*three).values()) == {HELD}
    assert list(words(*three)) == [
        "lower_half_matters_more",
        "below_100_matters_more",
        "nearest_range_is_best",
        "colours_come_from_late_steps",
        "x0_matters_in_few_steps",
        "v_shifts_less_than_epsilon",
        "x0_shifts_less_than_epsilon",
        "windows_matter_more_near_the_data",
    ]


def test_the_opposite_is_not_held() -> None:
    mirrored = dict(zip(PAPER, [20.0, 40.0, 25.0, 35.0, 15.0], strict=True))
    found = words(training(levels=mirrored), training("v_prediction", plain=10))
    assert words(training(levels=mirrored)).items() >= dict.fromkeys(ABOUT_RANGES, NOT_HELD).items()
    assert found["v_shifts_less_than_epsilon"] == NOT_HELD


def test_what_differs_to_and_fro_decides_nothing() -> None:
    sways = np.resize([1.0, -1.0], 20)
    swaying = {pair: Quality(30 + number * sways, 5 + number * sways / 10) for number, pair in enumerate(PAPER)}
    found = words(replace(training(), ranges=swaying))
    assert found.items() >= dict.fromkeys(ABOUT_RANGES, UNDECIDED).items()


def test_a_range_that_holds_the_nearest_one_is_said_to() -> None:
    found = decided(training(levels=PAPER | {(1, 500): 50.0}))["nearest_range_is_best"]
    assert found.verdict == NOT_HELD
    assert found.summary.startswith("the best other range is [1, 500], which holds all of [1, 10]; PSNR")
    other = decided(training(levels=PAPER | {(10, 100): 44.0}))["nearest_range_is_best"]
    assert other.summary.startswith("the best other range is [10, 100]; PSNR")


def test_every_training_is_a_comparison_of_its_own() -> None:
    against = dict(zip(PAPER, [20.0, 40.0, 25.0, 35.0, 15.0], strict=True))
    three = [training(seed=seed) for seed in range(3)]
    assert words(*three, training(seed=3, levels=against))["lower_half_matters_more"] == HELD
    assert words(three[0], training(seed=3, levels=against))["lower_half_matters_more"] == NOT_HELD
    figures = decided(*three)["lower_half_matters_more"].figures
    assert (figures["comparisons"], figures["for"], figures["against"]) == (3, 3, 0)


def test_a_summary_tells_predictions_apart() -> None:
    plain = dict.fromkeys(PAPER, 28.0)
    found = decided(training(spread=1e-9), training("sample", plain=25, levels=plain, spread=1e-9))
    shown = found["lower_half_matters_more"].summary
    assert (
        shown
        == "PSNR in dB: [1, 500] against [500, 1000] (nothing replaced): ε 40 against 20 (15), x0 28 against 28 (25)"
    )
    assert found["lower_half_matters_more"].figures["psnr_epsilon_1_500"] == pytest.approx(40)
    windows = found["windows_matter_more_near_the_data"].summary
    assert windows == "PSNR in dB from [1, 250] to [751, 1000]: ε 40.0, 35.0, 30.0, 25.0; x0 40.0, 35.0, 30.0, 25.0"


def test_predictions_are_compared_trial_by_trial_at_equal_compute_only() -> None:
    pairs = [training(name, seed, plain=level) for name, level in (("epsilon", 15), ("sample", 25)) for seed in (0, 1)]
    found = decided(*pairs)
    assert found["x0_shifts_less_than_epsilon"].figures["comparisons"] == 2
    assert "v_shifts_less_than_epsilon" not in found
    dearer = [replace(one, training_flops=2 * 10**9) if one.prediction == "sample" else one for one in pairs]
    unequal = decided(*dearer)["x0_shifts_less_than_epsilon"]
    assert unequal.verdict == UNDECIDED
    assert unequal.summary.startswith("not comparable: training FLOPs differ by 100 %")


def test_claims_about_ranges_that_were_not_tried_are_left_out() -> None:
    assert set(words(training(levels={(1, 500): 40.0, (2, 9): 30.0}))) == {
        "x0_matters_in_few_steps",
        "windows_matter_more_near_the_data",
    }


@pytest.mark.parametrize("name", ["linear", "cosine", "scaled_linear"])
@pytest.mark.parametrize("steps", [1000, 50])
def test_few_steps_take_a_notable_share_of_x0(name: str, steps: int) -> None:
    """By hand: the coefficient is √ᾱ_{t−1}·β_t/(1 − ᾱ_t)."""
    schedule = NoiseSchedule.named(name, steps)
    found = decided(training(), schedule=schedule)["x0_matters_in_few_steps"]
    ratio = np.cumprod(1 - schedule.betas.numpy())
    before = np.concatenate([[1.0], ratio[:-1]])
    large = np.flatnonzero(np.sqrt(before) * schedule.betas.numpy() / (1 - ratio) >= 0.1)
    assert found.figures["last_above_a_tenth"] == large[-1] + 1
    assert found.verdict == (HELD if large[-1] + 1 <= 15 else NOT_HELD)


def test_the_table_averages_trainings_and_spreads_over_images() -> None:
    pair = [training(seed=0), training(seed=1)]
    table = range_table(pair)
    assert [row[0] for row in table.rows] == ["nothing", *(str(list(one)) for one in PAPER)]
    both = (pair[0].unreplaced.psnr + pair[1].unreplaced.psnr) / 2
    assert table.rows[0][1] == plus_minus(float(both.mean()), float(both.std(ddof=1) / np.sqrt(20)))
    assert len(table.columns) == len(table.rows[0]) == 3


def test_every_run_has_a_row() -> None:
    rows = csv_rows([training()])
    assert [row["replaced"] for row in rows] == ["none"] + ["range"] * 5 + ["window"] * 4
    assert (rows[1]["first"], rows[1]["last"], rows[0]["first"]) == (1, 500, "")
    assert rows[1]["psnr_mean"] == pytest.approx(training().ranges[1, 500].psnr.sum() / 20)


def test_coefficients_at_every_timestep() -> None:
    rows = coefficient_rows(SCHEDULE)
    assert len(rows) == 1000
    assert rows[0] == {"timestep": 1, "x0": pytest.approx(1), "x_t": 0}
    beta, ratio = SCHEDULE.betas, SCHEDULE.alphas_cumprod
    assert rows[1]["x0"] == pytest.approx(float(ratio[0].sqrt() * beta[1] / (1 - ratio[1])))
