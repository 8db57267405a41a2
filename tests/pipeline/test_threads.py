"""Threads of tensors and arrays alike."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from unequal.processes import threads


def pools() -> set[int]:
    """The threads of every library that has some."""
    return {torch.get_num_threads(), *(one["num_threads"] for one in threadpool_info())}


@pytest.mark.parametrize("count", [1, 3])
def test_all_libraries_have_as_many_threads_within_the_block(count: int) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))  # which loads a library of its own
    before = pools()
    with threads(count):
        assert pools() == {count}
    assert pools() == before


def test_the_threads_are_as_before_where_the_block_fails() -> None:
    before = pools()
    with pytest.raises(ZeroDivisionError), threads(5):
        _ = 1 / 0
    assert pools() == before
