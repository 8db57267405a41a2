"""Images shared out: all of them, in proportion, and in rounds to whom they help most, whoever was stopped before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal

from unequal.experts.allocation import Trace, by_gain, shared_out
from unequal.settings.groups import ByGain

GAIN = ByGain(kind="gain", first=0.5, rounds=4)


@given(st.integers(1, 10**6), st.lists(st.floats(0.01, 1), min_size=1, max_size=20))
def test_all_images_are_given_out_in_proportion(images, shares):
    given = shared_out(images, shares)
    assert sum(given) == images
    assert all(abs(one - images * share / sum(shares)) <= 1 + 1e-6 for one, share in zip(given, shares, strict=True))


class Falling:
    """Errors that fall by so much an image, each known to 1; what was asked is listed."""

    def __init__(self, *slopes: float, stops_after: int | None = None) -> None:
        self.slopes, self.stops_after = slopes, stops_after
        self.asked: list[tuple[int, int]] = []

    def __call__(self, group: int, images: int) -> tuple[float, float]:
        if len(self.asked) == self.stops_after:
            raise KeyboardInterrupt
        self.asked.append((group, images))
        return 10 - self.slopes[group] * images, 1.0


def test_rounds_go_to_the_group_that_gains_most_by_the_image(tmp_path):
    assert by_gain(GAIN, 80, 2, 4, Trace(tmp_path / "trace"), Falling(0.01, 0.02)) == [20, 60]


def test_a_group_that_has_stopped_gaining_makes_way(tmp_path):
    def measure(group: int, images: int) -> tuple[float, float]:
        return (10 - 0.05 * min(images, 30), 1.0) if group == 0 else (10 - 0.01 * images, 1.0)

    # The first group gains 0.05 an image up to 30: two rounds of ten, the second in vain, and two for the other.
    assert by_gain(GAIN, 80, 2, 4, Trace(tmp_path / "trace"), measure) == [40, 40]


@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_who_was_stopped_asks_for_the_same_and_measures_nothing_again(tmp_path, after):
    slopes, trace = (0.03, 0.01, 0.02), Trace(tmp_path / "trace")
    whole, first, again = Falling(*slopes), Falling(*slopes, stops_after=after), Falling(*slopes)
    expected = by_gain(GAIN, 120, 3, 4, Trace(tmp_path / "whole"), whole)
    with pytest.raises(KeyboardInterrupt):
        by_gain(GAIN, 120, 3, 4, trace, first)
    assert by_gain(GAIN, 120, 3, 4, Trace(tmp_path / "trace"), again) == expected
    assert again.asked == whole.asked[after:]
    assert (tmp_path / "trace").read_text() == (tmp_path / "whole").read_text()


def test_a_round_of_less_than_a_step_is_refused(tmp_path):
    said = refusal(by_gain, GAIN, 80, 2, 16, Trace(tmp_path / "trace"), Falling(0.01, 0.02))
    assert "allocation: 80 images are 20 a group at first and 10 in each of 4 rounds; a" in said
