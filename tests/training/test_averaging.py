"""The averaged weights against closed forms."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from torch import nn

from unequal.settings.training import WIDEST, Average, ExponentialAverage, PowerAverage
from unequal.training.averaging import (
    KEPT_WIDTHS,
    AveragedWeights,
    Averages,
    PowerProfile,
    combination,
    decay,
    exponent_of,
    kept_share,
    relative_error,
)

HALF = ExponentialAverage(kind="exponential", decay=0.5)


def power(width: float, keep: int | None = None) -> PowerAverage:
    return PowerAverage(kind="power", width=width, keep=keep)


def averaged(net: nn.Module, settings: Average) -> AveragedWeights:
    return AveragedWeights(net, kept_share(settings))


def filled(value: float) -> nn.Linear:
    net = nn.Linear(2, 1)
    fill(net, value)
    return net


def fill(net: nn.Linear, value: float) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(value)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.95])
def test_distance_to_a_constant_target_is_the_product_of_the_decays(decay):
    net = filled(3.0)
    average = averaged(net, ExponentialAverage(kind="exponential", decay=decay))
    fill(net, 1.0)
    remaining = 2.0
    for update in range(30):
        average.update(tuple(net.parameters()))
        remaining *= min(decay, (1 + update) / (10 + update))
        assert float(average.average["bias"]) == pytest.approx(1 + remaining, rel=1e-5)


@pytest.mark.parametrize("width", [0.05, 0.1, WIDEST])
def test_an_average_by_width_weights_steps_by_a_power_and_forgets_the_start(width):
    """After T updates the weight of the t-th is (t/T)^(γ+1) − ((t−1)/T)^(γ+1), and the initial weights have none."""
    values, net = torch.randn(40, generator=torch.Generator().manual_seed(0)).double(), filled(1e3).double()
    average = averaged(net, power(width))
    for value in values:
        fill(net, float(value))
        average.update(tuple(net.parameters()))
    edges = (torch.arange(41).double() / 40) ** (exponent_of(width) + 1)
    assert float(average.average["bias"]) == pytest.approx(float(edges.diff() @ values), rel=1e-9)


def test_the_average_is_a_copy_and_goes_where_it_is_put():
    net = filled(1.0)
    average = averaged(net, HALF)
    fill(net, 5.0)
    assert float(average.average["bias"]) == 1.0
    other = filled(9.0)
    average.copy_to(other)
    assert other.bias.item() == 1.0
    assert net.bias.item() == 5.0


def test_the_average_of_a_half_precision_network_is_float32():
    assert averaged(filled(1.0).bfloat16(), HALF).average["bias"].dtype == torch.float32


def test_averages_that_are_kept_have_widths_of_their_own():
    net = filled(0.0)
    averages, alone = Averages(net, power(0.2, keep=4)), [averaged(net, power(width)) for width in KEPT_WIDTHS]
    for value in (1.0, 5.0, 2.0):
        fill(net, value)
        for one in (averages, *alone):
            one.update(tuple(net.parameters()))
    for width, one in zip(KEPT_WIDTHS, alone, strict=True):
        assert torch.equal(averages.snapshot_tensors()[f"width.{width}.bias"], one.average["bias"])
    assert Averages(net, power(0.2)).snapshot_tensors() == {} == Averages(net, HALF).snapshot_tensors()


@given(keep=st.integers(1, 50), steps=st.integers(1, 500))
def test_points_are_spread_over_the_training_and_end_with_it(keep, steps):
    points = Averages(filled(0.0), power(0.1, keep)).snapshot_steps(steps)
    assert len(points) == keep
    assert points[0] >= 1
    assert points[-1] == steps
    gaps = [after - before for before, after in zip([0, *points], points, strict=False)]
    assert max(gaps) - min(gaps) <= 1


def averages(values: np.ndarray, exponent: float) -> np.ndarray:
    found, average = [], 0.0
    for step, value in enumerate(values, start=1):
        average = average + (1 - decay(step, exponent)) * (value - average)
        found.append(average)
    return np.array(found)


def test_exponents_of_the_papers_widths():
    assert exponent_of(0.05) == pytest.approx(16.97, abs=0.01)
    assert exponent_of(0.10) == pytest.approx(6.94, abs=0.01)
    assert exponent_of(WIDEST) == pytest.approx(0, abs=1e-6)
    values = np.random.default_rng(0).normal(size=50)
    assert averages(values, 0.0) == pytest.approx(np.cumsum(values) / np.arange(1, 51)), "the widest is a plain mean"


@given(st.floats(0.01, WIDEST))
def test_a_profile_has_the_width_that_it_is_named_for(width):
    exponent = exponent_of(width)
    points = (np.arange(50_000) + 0.5) / 50_000
    weights = points**exponent / (points**exponent).sum()
    mean = weights @ points
    assert np.sqrt(weights @ (points - mean) ** 2) == pytest.approx(width, rel=1e-3)


def test_another_width_is_made_afterwards_from_kept_snapshots():
    values = np.cumsum(np.random.default_rng(1).normal(size=4000))
    kept = [PowerProfile(step, exponent_of(width)) for step in range(250, 4001, 250) for width in (0.05, 0.1)]
    snapshots = np.array([averages(values, profile.exponent)[int(profile.time) - 1] for profile in kept])
    for width in (0.06, 0.08, 0.15):
        weights = combination(kept, PowerProfile(4000, exponent_of(width)))
        true = averages(values, exponent_of(width))[-1]
        assert weights.sum() == pytest.approx(1, abs=0.02)
        assert weights @ snapshots == pytest.approx(true, abs=0.05 * values.std())


@pytest.mark.parametrize("width", [0, -0.1, 0.3, float("nan")])
def test_widths_that_no_profile_has_are_refused(width):
    assert "allowed: above 0, at most 0.2887" in refusal(exponent_of, width)


def test_an_average_beyond_the_snapshots_is_refused():
    assert "an average at 11 from snapshots at" in refusal(combination, [PowerProfile(10, 1)], PowerProfile(11, 2))


@given(st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=1, max_size=3, unique=True), st.floats(0.03, 0.28))
def test_what_is_missed_by_quadrature(times, width):
    kept = [PowerProfile(time, exponent_of(each)) for time in (*times, 1.0) for each in (0.05, 0.1)]
    wanted = PowerProfile(1.0, exponent_of(width))
    weights, points = combination(kept, wanted), (np.arange(50_000) + 0.5) / 50_000
    goal, *others = (np.where(points <= t, (g + 1) * np.minimum(points / t, 1) ** g / t, 0) for t, g in (wanted, *kept))
    distance = np.mean((weights @ np.array(others) - goal) ** 2) / np.mean(goal**2)
    assert weights.sum() == pytest.approx(1)
    assert relative_error(kept, wanted, weights) == pytest.approx(np.sqrt(distance), rel=1e-2, abs=1e-4)
