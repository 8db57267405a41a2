"""Solvers of higher order: where each ends on a path that is known, and what all of them share."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.solvers import SOLVERS, ddim, dpm_solver_2m, heun, network_calls

#: Data of N(0, ¼).
DEVIATION = 0.5
Predict = Callable[[torch.Tensor, int], torch.Tensor]


def straight(points: int, first: float = 0.999) -> NoiseSchedule:
    """α = 1 − s, σ = s at so many equal steps of s, the last of which would lead to the image."""
    times = first * torch.arange(1, points + 1, dtype=torch.float64) / points
    return NoiseSchedule("straight", 1 - times, times)


def exact(schedule: NoiseSchedule) -> Predict:
    """E[x0 | x_t] of data of N(0, c²): α·c²·x/(α²c² + σ²)."""

    def predict(x: torch.Tensor, t: int) -> torch.Tensor:
        alpha, sigma = schedule.level(t)
        return alpha * DEVIATION**2 * x / (alpha**2 * DEVIATION**2 + sigma**2)

    return predict


def error(solver: str, schedule: NoiseSchedule) -> float:
    """How far from the end of the exact path a solver ends, relatively: there x is divided by √(α²c² + σ²)/c."""
    alpha, sigma = schedule.level(schedule.timesteps - 1)
    end = DEVIATION / math.hypot(alpha * DEVIATION, sigma)
    start = torch.ones(1, dtype=torch.float64)
    found = SOLVERS[solver](start, range(schedule.timesteps)[::-1], schedule, exact(schedule))
    return float(found) / end - 1


@pytest.mark.parametrize(("solver", "percent"), [("ddim", -13.83), ("heun", 17.90), ("dpm_solver_2m", -0.59)])
def test_ten_steps_of_a_flow_end_where_they_are_known_to(solver: str, percent: float) -> None:
    assert 100 * error(solver, straight(10)) == pytest.approx(percent, abs=0.005)


@pytest.mark.parametrize(("solver", "order"), [("ddim", 1), ("heun", 2), ("dpm_solver_2m", 2)])
def test_the_error_falls_with_the_order(solver: str, order: int) -> None:
    """Halving the steps divides the error by 2^order, on a path that ends before the image, where r has no end."""
    schedule = NoiseSchedule.linear(1000)

    def end(steps: int) -> float:
        times = [round(900 - 400 * i / steps) for i in range(steps + 1)]
        start = torch.ones(1, dtype=torch.float64)
        found = []

        def watched(x: torch.Tensor, t: int) -> torch.Tensor:
            found.append((x, t))
            return exact(schedule)(x, t)

        SOLVERS[solver](start, times, schedule, watched)
        return float([x for x, t in found if t == 500][-1])

    (a, s), (b, u) = schedule.level(900), schedule.level(500)
    known = math.hypot(b * DEVIATION, u) / math.hypot(a * DEVIATION, s)
    errors = [abs(end(steps) - known) for steps in (25, 50)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8, unique=True), st.sampled_from(sorted(SOLVERS)))
def test_a_known_image_is_reached_by_every_solver_over_any_timesteps(chosen: list[int], solver: str) -> None:
    """Where the prediction is the same at all points, the path is straight in (r, y)."""
    schedule, image = NoiseSchedule.cosine(100), torch.tensor([0.3, -0.8], dtype=torch.float64)
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)
    found = SOLVERS[solver](start, sorted(chosen, reverse=True), schedule, lambda x, t: image)
    torch.testing.assert_close(found, image)


@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_calls_are_counted_as_they_are_made(solver: str) -> None:
    schedule, asked = straight(10), []

    def predict(x: torch.Tensor, t: int) -> torch.Tensor:
        asked.append(t)
        return exact(schedule)(x, t)

    for timesteps in ([9, 6, 3, 0], [5]):
        asked.clear()
        SOLVERS[solver](torch.ones(1, dtype=torch.float64), timesteps, schedule, predict)
        assert asked == network_calls(solver, timesteps)
    assert len(network_calls("heun", range(18))) == 35


def test_a_solver_that_always_begins_anew_is_ddim() -> None:
    schedule, timesteps = straight(10), range(10)[::-1]
    start = torch.ones(1, dtype=torch.float64)
    alone = dpm_solver_2m(start, timesteps, schedule, exact(schedule), lambda before, now: True)
    torch.testing.assert_close(alone, ddim(start, timesteps, schedule, exact(schedule)))
    asked = []
    dpm_solver_2m(start, [9, 5, 2], schedule, exact(schedule), lambda before, now: bool(asked.append((before, now))))
    assert asked == [(9, 5), (5, 2)]


def test_a_step_of_heun_is_the_mean_of_two_slopes() -> None:
    """By hand, in (r, y): from r = 2 to r = 1, and on to 0 by Euler's step."""
    schedule = NoiseSchedule("two", torch.tensor([0.5, 0.5]), torch.tensor([0.5, 1.0]))
    slopes = {1: 0.4, 0: 0.2}

    def predict(x: torch.Tensor, t: int) -> torch.Tensor:
        alpha, sigma = schedule.level(t)
        return (x - sigma * slopes[t]) / alpha

    found = heun(torch.tensor([1.0]), [1, 0], schedule, predict)
    assert float(found) == pytest.approx(2 - 1 * (0.4 + 0.2) / 2 - 1 * 0.2)
