"""Replicas begin alike where seed and width are alike, and only there."""

from collections.abc import Callable
from typing import Any

import torch
from specs import spec_of

from studies.consistency.replica import untrained
from unequal.settings.network import UNet2D


def test_the_seed_alone_decides_the_weights_of_a_width(network_settings: Callable[..., UNet2D]) -> None:
    torch.manual_seed(5)
    first, other = (untrained(network_settings(), "8-16", seed, spec_of()).state_dict() for seed in (3, 4))
    torch.manual_seed(6)
    again = untrained(network_settings(), "8-16", 3, spec_of()).state_dict()
    assert all(torch.equal(value, again[name]) for name, value in first.items())
    assert not torch.equal(first["conv_in.weight"], other["conv_in.weight"])


def test_the_width_replaces_the_channels_of_the_settings(network_settings: Callable[..., UNet2D]) -> None:
    net: Any = untrained(network_settings(block_out_channels=(8, 16)), "12-20", 0, spec_of(channels=3))
    assert tuple(net.config["block_out_channels"]) == (12, 20)
    assert net.conv_in.weight.shape[:2] == (12, 3)
