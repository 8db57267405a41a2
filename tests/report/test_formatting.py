"""Rows and numbers for people."""

import pytest

from unequal.report.formatting import duration, plus_minus, with_prefix


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (7, "7"), (999, "999"), (1000, "1.00 k"), (160_000, "160 k"), (163_985, "164 k"),
        (999_999, "1.00 M"), (1_836_318_720_000, "1.84 T"), (12_345_678, "12.3 M"), (1.5, "1.50"),
    ],
)  # fmt: skip
def test_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert with_prefix(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0.4 s"), (12.18, "12 s"), (59.7, "60 s"), (90, "1.5 min"), (240, "4 min"), (3590, "60 min"),
        (6840, "1.9 h"), (7200, "2 h"), (453_600, "126 h"),
    ],
)  # fmt: skip
def test_a_time_has_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("mean", "spread", "text"),
    [
        (12.3456, 0.2371, "12.3 ± 0.2"),
        (1533.8, 142.0, "1,530 ± 140"),
        (15338.0, 2.0, "15,338 ± 2"),
        (15338.0, None, "15,300"),
        (0.17, 0.005, "0.170 ± 0.005"),
        (0.17, 0.0996, "0.17 ± 0.10"),
        (17.0, 9.96, "17 ± 10"),
        (-0.0312, 0.004, "−0.0312 ± 0.0040"),
        (12.3456, None, "12.3"),
        (0.19772, 0.00012, "0.1977 ± 0.0001"),
        (12.3456, 0.0, "12.3 ± 0.0"),
        (0.0, 0.0, "0 ± 0"),
    ],
)
def test_three_digits_of_the_mean_or_as_many_as_the_spread_needs(mean: float, spread: float | None, text: str) -> None:
    assert plus_minus(mean, spread) == text
