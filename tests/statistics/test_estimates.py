import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unequal.errors import UserError
from unequal.statistics.estimates import BlockModel, own_variances, welch


def blocks(arms: int, count: int, seed: int = 0) -> BlockModel:
    return BlockModel(tuple("abcdefghi"[:arms]), np.random.default_rng(seed).normal(size=(arms, count)))


def test_two_arms_are_students_paired_test():
    study = blocks(2, 5)
    found = study.contrast("a", "b")
    paired = stats.ttest_rel(*study.values)
    assert found.difference / found.error == pytest.approx(paired.statistic)
    assert found.freedom == paired.df


@given(st.integers(0, 1000), st.floats(-5, 5), st.integers(0, 4))
def test_a_block_that_is_easier_for_all_arms_changes_nothing(seed: int, easier: float, block: int):
    study = blocks(4, 5, seed)
    shifted = study.values.copy()
    shifted[:, block] += easier
    assert BlockModel(study.arms, shifted).contrast("b", "a") == pytest.approx(study.contrast("b", "a"))


def test_the_pooled_variance_and_each_arms_are_without_bias():
    deviations = np.array([1.0, 2.0, 3.0, 1.0, 2.0])
    generator = np.random.default_rng(1)
    studies = [BlockModel(tuple("abcde"), deviations[:, None] * generator.normal(size=(5, 6))) for _ in range(4000)]
    assert np.mean([one.pooled_variance for one in studies]) == pytest.approx((deviations**2).mean(), rel=0.03)
    own = np.array([own_variances(one.values) for one in studies])
    assert own.mean(0) == pytest.approx(deviations**2, rel=0.1)
    assert studies[0].deviations ** 2 == pytest.approx(own[0].clip(min=0))
    assert min(one.contrast("a", "d").error ** 2 - 2 * one.pooled_variance / 6 for one in studies) > -1e-12


def test_welch_is_scipys():
    first, second = [1.0, 1.2, 0.9, 1.4], [1.1, 1.9, 2.5]
    found, known = welch(first, second), stats.ttest_ind(first, second, equal_var=False)
    assert found.difference / found.error == pytest.approx(known.statistic)
    assert found.freedom == int(known.df)


@pytest.mark.parametrize(
    ("arms", "values", "said"),
    [
        (("a",), np.zeros((1, 3)), "allowed: two arms and two blocks or more"),
        (("a", "b"), np.zeros((2, 1)), "allowed: two arms and two blocks or more"),
        (("a", "b"), np.array([[0, 1], [np.nan, 1]]), "arm 'b' has the endpoint nan in block 0"),
    ],
)
def test_what_is_no_study_is_refused(arms: tuple[str, ...], values: np.ndarray, said: str):
    with pytest.raises(UserError, match=said):
        BlockModel(arms, values)


def test_an_arm_that_was_not_trained_is_refused():
    with pytest.raises(UserError, match="arm 'z' was not trained; there is: a, b"):
        blocks(2, 3).contrast("z", "a")


def test_welch_refuses_what_has_no_scatter():
    with pytest.raises(UserError, match="two or more a side"):
        welch([1.0], [1.0, 2.0])
    with pytest.raises(UserError, match="scatter is not known"):
        welch([1.0, 1.0], [2.0, 2.0])
