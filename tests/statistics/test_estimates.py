"""Estimates of simulated studies against SciPy's tests, and what a design can detect."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from piloted import textbook_effect
from scipy import stats

from unequal.statistics.estimates import BlockModel, own_variances, welch
from unequal.statistics.power import Design, upper_deviation, visible_effect


def blocks(arms: int, count: int, seed: int = 0) -> BlockModel:
    return BlockModel(tuple("abcdefghi"[:arms]), np.random.default_rng(seed).normal(size=(arms, count)))


def test_two_arms_are_students_paired_test():
    study = blocks(2, 5)
    found = study.contrast("a", "b")
    paired = stats.ttest_rel(*study.values)
    assert found.difference / found.error == pytest.approx(paired.statistic)
    assert found.freedom == paired.df


@given(st.integers(0, 1000), st.floats(-5, 5), st.integers(0, 4))
def test_a_block_that_is_easier_for_all_arms_changes_nothing(seed, easier, block):
    study = blocks(4, 5, seed)
    shifted = study.values.copy()
    shifted[:, block] += easier
    assert BlockModel(study.arms, shifted).contrast("b", "a") == pytest.approx(study.contrast("b", "a"))


def test_the_pooled_variance_and_each_arms_are_without_bias():
    deviations = np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    generator = np.random.default_rng(1)
    studies = [BlockModel(tuple("abcde"), deviations[:, None] * generator.normal(size=(5, 6))) for _ in range(2000)]
    assert np.mean([one.pooled_variance for one in studies]) == pytest.approx((deviations**2).mean(), rel=0.04)
    own = np.array([own_variances(one.values) for one in studies])
    assert own.mean(0) == pytest.approx(deviations**2, rel=0.1)
    assert studies[0].deviations ** 2 == pytest.approx(own[0].clip(min=0))
    assert min(one.contrast("a", "d").error ** 2 - 2 * one.pooled_variance / 6 for one in studies) > -1e-12


def test_welch_is_scipys():
    first, second = [1.0, 1.2, 0.9, 1.4], [1.1, 1.9, 2.5]
    found, known = welch(first, second), stats.ttest_ind(first, second, equal_var=False)
    assert found.difference / found.error == pytest.approx(known.statistic)
    assert found.freedom == int(known.df)


def test_trainings_without_scatter_are_no_study():
    assert "scatter is not known" in refusal(welch, [1.0, 1.0], [2.0, 2.0])


def test_upper_bounds_of_a_pilots_deviation():
    assert upper_deviation(1, 2) == pytest.approx(2.1, abs=0.02)
    assert upper_deviation(1, 6) == pytest.approx(1.4, abs=0.01)


@pytest.mark.parametrize("plan", [Design(9, 5, 8), Design(4, 5, 3), Design(3, 3, 2)])
def test_guarding_against_unequal_scatter_costs_at_most_a_third_of_the_textbooks_effect(plan):
    assert 1 <= visible_effect(plan, 1) / textbook_effect(plan) <= 4 / 3


def test_the_promise_scales_with_the_deviation_and_falls_with_blocks():
    assert visible_effect(Design(4, 5, 3), 0.02) == pytest.approx(0.02 * visible_effect(Design(4, 5, 3), 1))
    assert visible_effect(Design(4, 8, 3), 1) < visible_effect(Design(4, 5, 3), 1)
