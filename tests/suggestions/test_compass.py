"""The search without derivatives finds least values that are known."""

import numpy as np
import pytest

from unequal.suggestions.density import compass_search


@pytest.mark.parametrize("start", [[0.0, 0.0], [5.0, -3.0]])
def test_the_bottom_of_a_tilted_bowl(start: list[float]):
    matrix, bottom = np.array([[2.0, 0.9], [0.9, 1.0]]), np.array([1.5, -0.7])
    found = compass_search(lambda x: float((x - bottom) @ matrix @ (x - bottom)), np.array(start))
    assert found == pytest.approx(bottom, abs=1e-4)


def test_where_there_is_no_value_it_does_not_go():
    def fenced(x: np.ndarray) -> float:
        return float(x[0]) if x[0] >= 1 else float("inf")

    assert compass_search(fenced, np.array([3.2])) == pytest.approx([1.0], abs=1e-4)
