"""Images shared out: all of them, in proportion, and in rounds to whom they help most, whoever was stopped before."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.errors import UserError
from unequal.experts.allocation import Trace, by_gain, shared_out
from unequal.settings.groups import ByGain

GAIN = ByGain(kind="gain", first=0.5, rounds=4)
Measure = Callable[[int, int], tuple[float, float]]


@given(st.integers(1, 10**6), st.lists(st.floats(0.01, 1), min_size=1, max_size=20))
def test_all_images_are_given_out_in_proportion(images: int, shares: list[float]) -> None:
    given = shared_out(images, shares)
    assert sum(given) == images
    assert all(abs(one - images * share / sum(shares)) <= 1 + 1e-6 for one, share in zip(given, shares, strict=True))


def falling(*slopes: float) -> Measure:
    def measure(group: int, images: int) -> tuple[float, float]:
        measure.asked.append((group, images))  # type: ignore[attr-defined]
        return 10 - slopes[group] * images, 1.0

    measure.asked = []  # type: ignore[attr-defined]
    return measure


def test_rounds_go_to_the_group_that_gains_most_by_the_image(tmp_path: Path) -> None:
    assert by_gain(GAIN, 80, 2, 4, Trace(tmp_path / "trace"), falling(0.01, 0.02)) == [20, 60]


def test_a_group_that_has_stopped_gaining_makes_way(tmp_path: Path) -> None:
    def measure(group: int, images: int) -> tuple[float, float]:
        return (10 - 0.05 * min(images, 30), 1.0) if group == 0 else (10 - 0.01 * images, 1.0)

    # The first group gains 0.05 an image up to 30: two rounds of ten, the second in vain, and two for the other.
    assert by_gain(GAIN, 80, 2, 4, Trace(tmp_path / "trace"), measure) == [40, 40]


@pytest.mark.parametrize("after", range(8))
def test_who_was_stopped_asks_for_the_same_and_measures_nothing_again(tmp_path: Path, after: int) -> None:
    whole = falling(0.03, 0.01, 0.02)
    expected = by_gain(GAIN, 120, 3, 4, Trace(tmp_path / "whole"), whole)
    first, asked = falling(0.03, 0.01, 0.02), whole.asked  # type: ignore[attr-defined]

    def stopped(group: int, images: int) -> tuple[float, float]:
        if len(first.asked) == after:  # type: ignore[attr-defined]
            raise KeyboardInterrupt
        return first(group, images)

    with pytest.raises(KeyboardInterrupt):
        by_gain(GAIN, 120, 3, 4, Trace(tmp_path / "trace"), stopped)
    again = falling(0.03, 0.01, 0.02)
    assert by_gain(GAIN, 120, 3, 4, Trace(tmp_path / "trace"), again) == expected
    assert again.asked == asked[after:]  # type: ignore[attr-defined]
    assert (tmp_path / "trace").read_text() == (tmp_path / "whole").read_text()


def test_a_round_of_less_than_a_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"allocation: 80 images are 20 a group at first and 10 in each of 4 rounds; a"):
        by_gain(GAIN, 80, 2, 16, Trace(tmp_path / "trace"), falling(0.01, 0.02))
