"""The averaged weights against closed forms."""

import copy

import pytest
import torch
from torch import nn

from unequal.training.ema import EMA


def filled(value: float) -> nn.Linear:
    net = nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(value)
    return net


def fill(net: nn.Linear, value: float) -> None:
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(value)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.95])
def test_distance_to_a_constant_target_is_the_product_of_the_decays(decay: float) -> None:
    net = filled(3.0)
    ema = EMA(net, decay)
    fill(net, 1.0)
    remaining = 2.0
    for update in range(30):
        ema.update()
        remaining *= min(decay, (1 + update) / (10 + update))
        assert float(ema.average["bias"]) == pytest.approx(1 + remaining, rel=1e-5)


def test_long_after_the_warm_up_it_decays_geometrically() -> None:
    net = filled(0.0)
    ema = EMA(net, 0.9)
    ema.updates = 10_000
    fill(net, 1.0)
    for _ in range(5):
        ema.update()
    assert float(ema.average["bias"]) == pytest.approx(1 - 0.9**5, rel=1e-5)


def test_the_first_update_forgets_nine_tenths_of_the_start() -> None:
    net = filled(1.0)
    ema = EMA(net, 0.9999)
    fill(net, 0.0)
    ema.update()
    assert float(ema.average["bias"]) == pytest.approx(0.1)


def test_the_average_is_a_copy_and_goes_where_it_is_put() -> None:
    net = filled(1.0)
    ema = EMA(net, 0.5)
    fill(net, 5.0)
    assert float(ema.average["bias"]) == 1.0
    other = filled(9.0)
    ema.copy_to(other)
    assert other.bias.item() == 1.0
    assert net.bias.item() == 5.0


def test_parameters_are_followed_to_another_memory() -> None:
    """DistributedDataParallel moves them."""
    net = filled(1.0)
    ema = EMA(net, 0.5)
    net.bias.data = torch.zeros(1)
    ema.update()
    assert float(ema.average["bias"]) == pytest.approx(0.1)


def test_a_saved_average_goes_on_as_if_never_stopped() -> None:
    net = filled(0.0)
    ema = EMA(net, 0.9)
    for value in (1.0, 2.0, 3.0):
        fill(net, value)
        ema.update()
    other = filled(7.0)
    resumed = EMA(other, 0.9)
    resumed.load_state_dict(copy.deepcopy(ema.state_dict()), ema.updates)
    for followed, average in ((net, ema), (other, resumed)):
        fill(followed, 4.0)
        average.update()
    assert all(torch.equal(resumed.average[name], ema.average[name]) for name in ema.average)


def test_the_average_of_a_half_precision_network_is_float32() -> None:
    assert EMA(filled(1.0).bfloat16(), 0.9).average["bias"].dtype == torch.float32
