"""The averaged weights against closed forms."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from unequal.settings.training import WIDEST, Average, ExponentialAverage, PowerAverage
from unequal.training.averaging import KEPT_WIDTHS, AveragedWeights, Averages, exponent_of, kept_share


def exponential(decay: float) -> ExponentialAverage:
    return ExponentialAverage(kind="exponential", decay=decay)


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
def test_distance_to_a_constant_target_is_the_product_of_the_decays(decay: float) -> None:
    net = filled(3.0)
    average = averaged(net, exponential(decay))
    fill(net, 1.0)
    remaining = 2.0
    for update in range(30):
        average.update()
        remaining *= min(decay, (1 + update) / (10 + update))
        assert float(average.average["bias"]) == pytest.approx(1 + remaining, rel=1e-5)


def test_long_after_the_warm_up_it_decays_geometrically() -> None:
    net = filled(0.0)
    average = averaged(net, exponential(0.9))
    average.updates = 10_000
    fill(net, 1.0)
    for _ in range(5):
        average.update()
    assert float(average.average["bias"]) == pytest.approx(1 - 0.9**5, rel=1e-5)


def test_the_first_update_forgets_nine_tenths_of_the_start() -> None:
    net = filled(1.0)
    average = averaged(net, exponential(0.9999))
    fill(net, 0.0)
    average.update()
    assert float(average.average["bias"]) == pytest.approx(0.1)


@pytest.mark.parametrize("width", [0.05, 0.1, WIDEST])
def test_an_average_by_width_weights_steps_by_a_power_and_forgets_the_start(width: float) -> None:
    """After T updates the weight of the t-th is (t/T)^(γ+1) − ((t−1)/T)^(γ+1), and the initial weights have none."""
    values, net = torch.randn(40, generator=torch.Generator().manual_seed(0)).double(), filled(1e3).double()
    average = averaged(net, power(width))
    for value in values:
        fill(net, float(value))
        average.update()
    edges = (torch.arange(41).double() / 40) ** (exponent_of(width) + 1)
    assert float(average.average["bias"]) == pytest.approx(float(edges.diff() @ values), rel=1e-9)


def test_the_average_is_a_copy_and_goes_where_it_is_put() -> None:
    net = filled(1.0)
    average = averaged(net, exponential(0.5))
    fill(net, 5.0)
    assert float(average.average["bias"]) == 1.0
    other = filled(9.0)
    average.copy_to(other)
    assert other.bias.item() == 1.0
    assert net.bias.item() == 5.0


def test_parameters_are_followed_to_another_memory() -> None:
    """DistributedDataParallel moves them."""
    net = filled(1.0)
    average = averaged(net, exponential(0.5))
    net.bias.data = torch.zeros(1)
    average.update()
    assert float(average.average["bias"]) == pytest.approx(0.1)


@pytest.mark.parametrize("settings", [exponential(0.9), power(0.1), power(0.2, keep=3)])
def test_saved_averages_go_on_as_if_never_stopped(settings: Average) -> None:
    net = filled(0.0)
    averages = Averages(net, settings)
    for value in (1.0, 2.0, 3.0):
        fill(net, value)
        averages.update()
    other = filled(7.0)
    resumed = Averages(other, settings)
    resumed.load_state_dict(copy.deepcopy(averages.state_dict()), 3)
    for followed, one in ((net, averages), (other, resumed)):
        fill(followed, 4.0)
        one.update()
    found, expected = resumed.state_dict(), averages.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_average_of_a_half_precision_network_is_float32() -> None:
    assert averaged(filled(1.0).bfloat16(), exponential(0.9)).average["bias"].dtype == torch.float32


def test_averages_that_are_kept_have_widths_of_their_own() -> None:
    net = filled(0.0)
    averages, alone = Averages(net, power(0.2, keep=4)), [averaged(net, power(width)) for width in KEPT_WIDTHS]
    for value in (1.0, 5.0, 2.0):
        fill(net, value)
        for one in (averages, *alone):
            one.update()
    for width, one in zip(KEPT_WIDTHS, alone, strict=True):
        assert torch.equal(averages.snapshot_tensors()[f"width.{width}.bias"], one.average["bias"])
    assert Averages(net, power(0.2)).snapshot_tensors() == {} == Averages(net, exponential(0.9)).kept_tensors()


@given(keep=st.integers(1, 50), steps=st.integers(1, 500))
def test_points_are_spread_over_the_training_and_end_with_it(keep: int, steps: int) -> None:
    points = Averages(filled(0.0), power(0.1, keep)).points(steps)
    assert len(points) == keep
    assert points[0] >= 1
    assert points[-1] == steps
    gaps = [after - before for before, after in zip([0, *points], points, strict=False)]
    assert max(gaps) - min(gaps) <= 1
