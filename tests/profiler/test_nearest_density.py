"""Densities that have a name are found by it; distances and second moments are what they are."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from profiled import FLOW, LINEAR
from scipy.optimize import minimize

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.profiler.nearest_density import (
    TwoLevels,
    divergence,
    nearest,
    relative_moment,
    total_variation,
)
from unequal.timesteps.densities import beta, logit_normal, masses, uniform_time
from unequal.timesteps.learning import least_variance

SCHEDULES = [LINEAR, FLOW, NoiseSchedule.cosine(200)]
densities = arrays(float, 40, elements=st.floats(0.01, 1)).map(lambda values: values / values.sum())


NAMED = [
    *(
        (0, partial(logit_normal, mean=m, std=s), 1.0, {"mean": m, "std": s})
        for m, s in ((0, 1), (-0.7, 1.3), (1.2, 0.6))
    ),
    *((1, uniform_time, shift, {"shift": shift}) for shift in (0.4, 1.0, 3.0)),
    *((2, partial(beta, a=a, b=b), 1.0, {"a": a, "b": b}) for a, b in ((1.0, 1.0), (0.6, 1.6), (4.0, 2.0))),
]


@pytest.mark.parametrize("number", range(len(NAMED)))
def test_a_density_that_has_a_name_is_found(number):
    """Logit-normal, shifted times and beta, in this order; no logit-normal is one of the others."""
    schedule, (place, density, shift, arguments) = SCHEDULES[number % 3], NAMED[number]
    found = nearest(masses(density, schedule, shift, "open"), schedule)
    assert found[place].arguments == pytest.approx(arguments, rel=1e-3, abs=1e-3)
    assert found[place].distance < 1e-4
    assert place or min(one.distance for one in found[1:]) > 1e-4


def test_uniform_timesteps_of_a_flow_are_the_shift_of_1_and_the_beta_of_1_and_1():
    _, shift, flat = nearest(np.full(1000, 1e-3), Flow(1000, 5.0))
    assert shift.arguments == pytest.approx({"shift": 1}, abs=1e-4)
    assert flat.arguments == pytest.approx({"a": 1, "b": 1}, abs=1e-4)


def test_the_nearest_is_as_near_as_another_search_finds():
    p = np.linspace(1, 4, 1000) / np.linspace(1, 4, 1000).sum()

    def distance(point: np.ndarray) -> float:
        normal = partial(logit_normal, mean=point[0], std=math.exp(point[1]))
        return divergence(p, masses(normal, FLOW, 1.0, "open"))

    found = nearest(p, FLOW)[0]
    other = minimize(distance, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12})
    assert divergence(p, found.probabilities) == pytest.approx(other.fun, abs=1e-8)
    assert found.distance > 0.05  # which is far from a logit-normal


@settings(max_examples=3)
@given(densities)
def test_distances_of_what_is_found_are_its_own(p):
    for one in nearest(p, Flow(40)):
        assert one.probabilities.sum() == pytest.approx(1)
        assert one.distance == pytest.approx(0.5 * np.abs(p - one.probabilities).sum())
        assert 2 * one.distance**2 <= divergence(p, one.probabilities) + 1e-12  # Pinsker


def test_total_variation_is_what_lies_elsewhere():
    assert total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.2, 0.5, 0.3])) == pytest.approx(0.3)
    assert divergence(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == pytest.approx(math.log(2))


@given(densities, densities)
def test_no_density_has_a_lower_second_moment_than_the_one_of_least_variance(p, moments):
    best = least_variance(np.full(40, 1 / 40), moments)
    assert relative_moment(best, moments) <= relative_moment(p, moments) + 1e-12
    assert relative_moment(best, moments) == pytest.approx(np.sqrt(moments).mean() ** 2 / moments.mean())
    assert relative_moment(np.full(40, 1 / 40), moments) == pytest.approx(1)


def test_arguments_move_with_the_density_as_the_nearest_one_does():
    losses = np.exp(-(((np.arange(1000) - 200) / 300) ** 2)) + 0.05
    p = losses / losses.sum()
    waves = 1 + 0.05 * np.sin(np.arange(1000) / np.array([[90.0], [400.0]]))
    others = p * waves / (p * waves).sum(1, keepdims=True)
    every = [nearest(density, LINEAR) for density in (p, *others)]
    for number, near in enumerate(every[0]):
        refit = near.refitted(p, LINEAR)
        for density, names in zip((p, *others), every, strict=True):
            found, moved = names[number].arguments, refit(density)
            changes = {name: found[name] - near.arguments[name] for name in found}
            linear = {name: moved[name] - near.arguments[name] for name in found}
            assert linear == pytest.approx(changes, rel=0.1, abs=1e-3)


def test_two_levels_are_found():
    p = np.repeat([3.0, 1.0], [30, 70]) / 160
    found = TwoLevels.of(p)
    assert (found.border, found.multiplier, found.distance) == (30, pytest.approx(3), pytest.approx(0, abs=1e-12))


@given(densities, st.integers(1, 39), st.floats(0.01, 100))
def test_no_two_levels_are_nearer(p, border, multiplier):
    def far(border: int, multiplier: float) -> float:
        weights = np.where(np.arange(40) < border, multiplier, 1.0)
        return divergence(p, weights / weights.sum())

    found = TwoLevels.of(p)
    assert far(found.border, found.multiplier) <= far(border, multiplier) + 1e-9
