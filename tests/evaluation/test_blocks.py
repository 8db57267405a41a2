"""Differences in complete blocks against SciPy's tests and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unequal.evaluation.blocks import contrast, degrees_of_freedom, own_variances, pooled_variance


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def test_two_variants_are_students_paired_test():
    values = normal(2, 5)
    difference, error = contrast(values, 0, 1)
    paired = stats.ttest_rel(*values)
    assert difference / error == pytest.approx(paired.statistic)
    assert degrees_of_freedom(values) == paired.df


@given(st.integers(0, 1000), st.floats(-5, 5), st.integers(0, 4))
def test_a_block_that_is_easier_for_all_variants_changes_nothing(seed, easier, block):
    values = normal(4, 5, seed=seed)
    shifted = values.copy()
    shifted[:, block] += easier
    assert np.array(contrast(shifted, 1, 0)) == pytest.approx(np.array(contrast(values, 1, 0)))


@given(st.integers(0, 1000), st.permutations(range(4)), st.permutations(range(5)))
def test_the_order_of_variants_and_blocks_changes_nothing(seed, variants, blocks):
    values = normal(4, 5, seed=seed)
    other = contrast(values[variants][:, blocks], variants.index(2), variants.index(0))
    assert np.array(other) == pytest.approx(np.array(contrast(values, 2, 0)))


def test_the_pooled_variance_and_each_variants_are_without_bias():
    deviations = np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    studies = deviations[:, None] * normal(2000, 5, 6, seed=1)
    assert pooled_variance(studies).mean() == pytest.approx((deviations**2).mean(), rel=0.04)
    assert own_variances(studies).mean(0) == pytest.approx(deviations**2, rel=0.1)
    assert (contrast(studies, 0, 3)[1] ** 2 - 2 * pooled_variance(studies) / 6).min() > -1e-12


def test_many_studies_at_once_are_each_by_itself():
    studies = normal(7, 3, 4)
    assert pytest.approx(np.array([contrast(one, 2, 1) for one in studies])) == np.array(contrast(studies, 2, 1)).T
