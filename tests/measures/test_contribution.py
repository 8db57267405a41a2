"""Replacing x0 in a range against plain DDIM step by step."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unequal.diffusion.ddim import ddim
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.measures.contribution import counted_from_1, replaced_samples, sliding_windows
from unequal.timesteps.partition import TimestepRange

T = 40
EVERY_STEP = list(range(T - 1, -1, -1))
SCHEDULES = [NoiseSchedule.linear(T), Flow(T, 3.0)]
on_each_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda one: one.name)


def normal(*key: int) -> Tensor:
    return torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(sum(1000**i * k for i, k in enumerate(key))))


TRUTH, START = normal(1).clamp(-1, 1), normal(2)


def predict(x_t: Tensor, t: int) -> Tensor:
    """Some x0, different for every image and timestep."""
    return torch.tanh(x_t * (1 + t / T)) * 0.8


def noise(step: int) -> Tensor:
    return normal(3, step)


def replaced(schedule: NoiseSchedule, ranges: list[TimestepRange]) -> Tensor:
    return replaced_samples(predict, TRUTH, START, noise, schedule, ranges)


def one_by_one(schedule: NoiseSchedule, chosen: TimestepRange) -> Tensor:
    """The same as DDIM with a predictor that knows the truth where it may."""

    def knowing(x_t: Tensor, t: int) -> Tensor:
        return TRUTH if chosen.first <= t <= chosen.last and t > 0 else predict(x_t, t)

    return ddim(START, EVERY_STEP, schedule, knowing, 1.0, noise)


@on_each_schedule
@given(st.lists(st.tuples(st.integers(0, T - 1), st.integers(0, T - 1)), min_size=1, max_size=4))
def test_each_range_is_a_run_of_its_own(schedule: NoiseSchedule, pairs: list[tuple[int, int]]) -> None:
    ranges = [TimestepRange(min(pair), max(pair)) for pair in pairs]
    found = replaced(schedule, ranges)
    torch.testing.assert_close(found[0], ddim(START, EVERY_STEP, schedule, predict, 1.0, noise))
    for run, chosen in zip(found[1:], ranges, strict=True):
        torch.testing.assert_close(run, one_by_one(schedule, chosen))


@on_each_schedule
def test_the_last_step_is_never_replaced(schedule: NoiseSchedule) -> None:
    found = replaced(schedule, [TimestepRange(0, 0), TimestepRange(0, T - 1)])
    assert torch.equal(found[1], found[0])
    assert not torch.allclose(found[2], TRUTH)
    # A perfect prediction at the last step gives the truth, whatever happened before.
    perfect = replaced_samples(lambda x, t: TRUTH, TRUTH, START, noise, schedule, [])
    torch.testing.assert_close(perfect[0], TRUTH)


@on_each_schedule
def test_the_network_is_asked_only_where_the_truth_is_not_taken(schedule: NoiseSchedule) -> None:
    asked: list[tuple[int, int]] = []

    def counting(x_t: Tensor, t: int) -> Tensor:
        asked.append((t, len(x_t) // len(TRUTH)))
        return predict(x_t, t)

    replaced_samples(counting, TRUTH, START, noise, schedule, [TimestepRange(10, 29), TimestepRange(0, 4)])
    assert dict(asked) == {t: 1 + (t < 10) + (t == 0) for t in range(T)}


@given(st.integers(1, 60), st.integers(1, 60))
def test_windows_slide_over_all_timesteps(count: int, width: int) -> None:
    windows = sliding_windows(60, count, width)
    assert len(windows) == count and all(one.last - one.first + 1 == width for one in windows)
    assert windows[0].first == 0 and (count == 1 or windows[-1].last == 59)
    steps = [after.first - before.first for before, after in pairwise(windows)]
    assert not steps or max(steps) - min(steps) <= 1


def test_ranges_are_written_as_the_paper_counts() -> None:
    assert counted_from_1(10, 100) == (9, 99)
    assert sliding_windows(1000, 10, 100) == [TimestepRange(100 * i, 100 * i + 99) for i in range(10)]
