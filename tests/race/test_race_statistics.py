"""Statistics of races, against simulated races and against values that are known independently."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from unequal.race import simulation
from unequal.race.claim import Slope, look, pays_from, worth
from unequal.race.plan import CONFIRM, WHOLE, Plan, claim_of, following, opening
from unequal.race.simulation import LEAGUE, World, best_prospects, plans, simulate
from unequal.race.standing import Candidate, Scatter, going_on, merged, next_lower, scatter_of, seats, shrunk_effect
from unequal.statistics.estimates import BlockModel

RATES = (0.5, 1.0, 2.0)
A, B, C = (Candidate(name, 1.0) for name in "abc")


def results(**means: float) -> dict[Candidate, dict[int, float]]:
    return {Candidate(arm, 1.0): {0: mean, 1: mean + 0.1} for arm, mean in means.items()}


def test_races_without_a_difference_claim_in_at_most_one_of_twenty() -> None:
    plan = Plan("arm_0", RATES, 0.05, (0.25, (100,)), 4, (0,), False, 2, (1, 2), (200, 201, 202), (203, 204, 205))
    generator = np.random.default_rng(1)
    courses = [simulate(plan, World.drawn(generator, 12, 0.0), generator) for _ in range(500)]
    claims = [one.claim.word for one in courses if one.claim is not None]
    assert len(claims) > 300
    assert sum(word in ("better", "worse") for word in claims) / len(courses) <= 0.05


@pytest.mark.parametrize(
    ("tried", "few", "many", "races", "share"),
    [
        # Simulated so little, the plan is not yet the best one; 89 % of its races find such an arm, ± 1.8 %.
        (15, 15, 60, 300, 0.8),
        pytest.param(simulation.TRIED, simulation.FEW, simulation.MANY, 500, 0.9, marks=pytest.mark.thorough),
    ],
)
def test_28_trainings_find_an_arm_within_five_per_cent_of_the_best(
    tried: int, few: int, many: int, races: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TRIED", tried), ("FEW", few), ("MANY", many)):
        monkeypatch.setattr(simulation, name, value)
    candidates = plans("uniform", RATES, 0.05, 12)
    plan_of_28 = best_prospects(candidates, 12, lambda one: one.cost(12), 28.0)[0].plan
    assert plan_of_28.cost(12) <= 28
    generator = np.random.default_rng(2)
    courses = [simulate(plan_of_28, World.drawn(generator, 12, 1.0), generator) for _ in range(races)]
    assert np.mean([one.arm_regret < 0.05 for one in courses]) >= share
    assert np.mean([one.claim is not None and one.claim.word == "better" for one in courses]) >= 0.9


def test_worlds_have_the_effects_that_the_league_measured() -> None:
    with Path("studies/league/unet/results/trainings.csv").open() as file:
        rows = list(csv.DictReader(file))
    means = {arm: np.mean([math.log(float(row["fid"])) for row in rows if row["arm"] == arm]) for arm in LEAGUE_ARMS}
    assert sorted(means[arm] - means["uniform"] for arm in LEAGUE_ARMS[1:]) == pytest.approx(sorted(LEAGUE), abs=6e-4)


LEAGUE_ARMS = [
    "uniform",
    "low_discrepancy",
    "logit_normal",
    "mode",
    "uniform_log_snr",
    "min_snr",
    "learned_uncertainty",
]
LEAGUE_ARMS += ["info_noise", "adaptive", "cluster_uncertainty", "pcgrad", "nash"]


def test_the_cost_of_a_plan_counts_every_training() -> None:
    plan = Plan("a", RATES, 0.05, (0.25, (100, 101)), 4, (0, 1), True, 2, (2,), (200, 201, 202), (203,))
    # 12 arms × 3 rates × 2 seeds at a quarter, 5 arms at 2 rates × 2 seeds, 3 arms × 1 seed, 2 × 4 fresh ones.
    assert plan.cost(12) == 12 * 3 * 2 / 4 + 5 * 2 * 2 + 3 + 8
    assert plan.trainings(12) == (72, 31)


def test_scatter_is_that_of_the_blocks_model() -> None:
    values = np.random.default_rng(0).normal(size=(3, 4))
    own = {one: dict(enumerate(row)) for one, row in zip((A, B, C), values.tolist(), strict=True)}
    scatter, model = scatter_of(own), BlockModel(("a", "b", "c"), values)
    assert scatter.variance == pytest.approx(model.pooled_variance)
    assert scatter.freedom == model.freedom
    collapsed = own | {Candidate("d", 1.0): {0: math.inf, 1: 0.0, 2: 0.0, 3: 0.0}}
    assert scatter_of(collapsed) == scatter


def test_seats_go_to_the_best_and_the_control() -> None:
    rung = results(control=0.5, a=0.2, b=0.1, c=0.3, d=math.inf)
    known = Scatter(0.0004, 4)
    assert going_on(rung, "control", 2, 0.05, Scatter()) == ["b", "a", "control"]
    # a is 0.1 behind b: 0.05 beyond δ, five standard errors of 0.01; the seat stays empty.
    assert going_on(rung, "control", 2, 0.05, known) == ["b", "control"]
    assert going_on(rung, "control", 2, 0.2, known) == ["b", "a", "control"]
    assert "d" not in going_on(rung, "control", 4, 1.0, Scatter())


def test_the_next_lower_rate_is_tried_too() -> None:
    assert (next_lower(1.0, RATES), next_lower(0.5, RATES)) == ([0.5], [])
    best = {"a": Candidate("a", 2.0), "b": Candidate("b", 0.5)}
    assert seats(["a", "b"], best, RATES, lower=True) == [("a", 2.0), ("a", 1.0), ("b", 0.5)]


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        ([-0.3, -0.31, -0.29], "better"),
        ([0.3, 0.31, 0.29], "worse"),
        ([0.001, -0.001, 0.0], "the same"),
        ([-0.05, 0.01, -0.04], "undecided"),
    ],
)
def test_a_look_has_one_of_four_words(differences: list[float], word: str) -> None:
    scatter = Scatter(8 * 0.02**2, 8) if word != "undecided" else Scatter(8 * 0.05**2, 8)
    assert look([(1 + one, 1.0) for one in differences], scatter, 0.1).word == word


def test_the_interval_of_a_look_is_students_at_its_level() -> None:
    claim = look([(0.9, 1.0), (0.8, 1.0), (0.85, 1.0)], Scatter(0.02, 8), 0.05)
    variance = (0.02 + np.array([-0.1, -0.2, -0.15]).var() * 3 / 2) / 10
    low, high = stats.t.interval(0.975, 10, -0.15, math.sqrt(2 * variance / 3))
    assert [claim.low, claim.high] == pytest.approx([low, high])


def test_a_winner_that_collapses_is_never_better() -> None:
    pairs, scatter = [(-1.0, 0.0), (-1.0, 0.0)], Scatter(0.01, 8)
    ends = {"worse": (math.inf, 0.0), "undecided": (math.inf, math.inf), "better": (-1.0, math.inf)}
    assert {word: look([*pairs, last], scatter, 0.05).word for word, last in ends.items()} == {
        word: word for word in ends
    }
    assert look([(math.inf, 0.0)] * 2, scatter, 0.05).word == "worse"
    assert look([(-1.0, math.inf)] * 2, scatter, 0.05).word == "undecided", "no block to measure a lead by"


def test_the_forecast_of_the_best_of_equal_arms_is_nothing() -> None:
    generator = np.random.default_rng(0)
    own = {Candidate(f"a{k}", 1.0): dict(enumerate(row)) for k, row in enumerate(generator.normal(size=(30, 4)))}
    best = min(own, key=lambda one: sum(own[one].values())).arm
    shown, forecast = shrunk_effect(own, best, "a0", scatter_of(own))
    assert shown < -0.5
    assert abs(forecast) < 0.3 * abs(shown)


def test_worth_is_the_control_at_so_many_more_images() -> None:
    # FID falls as the square root of images: 30 % less is worth (1/0.7)² times the images.
    slope = Slope.between([math.log(8.0)], [math.log(4.0)], 0.25, 0.0)
    assert slope is not None
    assert slope.fall == pytest.approx(0.5)
    assert worth(math.log(0.7), slope) == pytest.approx(1 / 0.49)
    assert pays_from(28.0, 2.0) == 28.0
    assert pays_from(28.0, 1.0) is None
    assert Slope.between([1.0], [1.1], 0.25, 0.0) is None


def test_a_race_ends_where_the_control_leads_and_goes_on_where_a_look_is_undecided() -> None:
    plan = Plan("a", (1.0,), 0.05, None, None, (0, 1), False, 1, (), (200, 201), (202, 203))
    assert opening(plan, ["a", "b"]) == (WHOLE, (A, B), (0, 1), 1.0)
    assert following(plan, {WHOLE: results(a=0.1, b=0.2)}) is None
    whole = {A: {0: 0.2, 1: 0.31}, B: {0: 0.1, 1: 0.2}}
    fresh = following(plan, {WHOLE: whole})
    assert fresh == (CONFIRM, (B, A), (200, 201), 1.0)
    undecided = {WHOLE: whole, CONFIRM: {B: {200: 0.0, 201: 0.0}, A: {200: 0.05, 201: -0.1}}}
    assert claim_of(plan, undecided).word == "undecided"
    assert following(plan, undecided) == ("further", (B, A), (202, 203), 1.0)
    assert merged(undecided[WHOLE], undecided[CONFIRM])[A] == {0: 0.2, 1: 0.31, 200: 0.05, 201: -0.1}
