"""Functions of statistics, against SciPy's and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from unequal.errors import UserError
from unequal.timesteps.densities import beta_cdf, expit, logit, normal_cdf

SHARES = np.concatenate([[0.0, 1e-300, 1e-9], np.linspace(0.001, 0.999, 999), [1 - 1e-9, 1.0]])


@given(st.floats(0.01, 500), st.floats(0.01, 500))
def test_the_distribution_function_of_beta_is_scipys(a: float, b: float):
    assert beta_cdf(SHARES, a, b) == pytest.approx(special.betainc(a, b, SHARES), abs=1e-11)


def test_beta_has_closed_forms():
    assert beta_cdf(SHARES, 1.0, 1.0) == pytest.approx(SHARES, abs=1e-15)
    assert beta_cdf(SHARES, 0.5, 0.5) == pytest.approx(2 / np.pi * np.arcsin(np.sqrt(SHARES)), abs=1e-11)


def test_a_beta_beyond_double_precision_is_refused():
    with pytest.raises(UserError, match=r"^Beta\(1e\+13, 1e\+13\) is too narrow .* allowed: a and b up to 1e8$"):
        beta_cdf(SHARES, 1e13, 1e13)


def test_the_normal_keeps_its_digits_far_below_the_mean():
    x = np.linspace(-35, 35, 701)
    assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-12)


def test_logit_and_expit_undo_each_other_up_to_the_ends():
    assert expit(logit(SHARES)) == pytest.approx(SHARES, rel=1e-14)
    assert logit(np.array([0.0, 1.0])).tolist() == [-np.inf, np.inf]
