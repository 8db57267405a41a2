"""What tests of pruning share: a target, made of a tiny network and the tiny data set."""

from collections.abc import Callable
from typing import Any

import pytest
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.data.pixels import tensor_of
from unequal.data.prepared import PreparedData
from unequal.models.artifact import ModelRecord
from unequal.models.flops import count_cost
from unequal.pruning.target import Target

MakeTarget = Callable[..., Target]


@pytest.fixture(scope="session")
def make_target(prepared: PreparedData, make_record: Callable[..., ModelRecord]) -> MakeTarget:
    """A network to be pruned to a share of its cost for timesteps 5 … 20 of 50; further words are of its record."""

    def make(
        net: UNet2DModel, ratio: float = 0.7, seed: int = 0, first: int = 5, last: int = 20, **record: Any
    ) -> Target:
        limit = ratio * count_cost(net).macs
        return Target(net, make_record(net, **record), tensor_of(prepared.train), first, last, limit, seed)

    return make
