"""Fixtures of pruning: a target of a tiny network and the tiny data set, and trials of schemes on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from diffusers.models.unets.unet_2d import UNet2DModel
from search_place import MAGNITUDE, Here

from unequal.data.prepared import PreparedData, tensor_of
from unequal.experts.anatomy import Anatomy
from unequal.experts.evaluator import Evaluator
from unequal.experts.importance import Target, ranked
from unequal.models.backbones.backbone import count_cost
from unequal.models.folder import ModelRecord
from unequal.settings.training import Runtime
from unequal.timesteps.partition import TimestepRange

MakeTarget = Callable[..., Target]


@pytest.fixture(scope="session")
def make_target(prepared: PreparedData, make_record: Callable[..., ModelRecord]) -> MakeTarget:
    """A network to be pruned to a share of its cost for timesteps 5 … 20 of 50; further words are of its record."""

    def make(
        net: UNet2DModel, ratio: float = 0.7, seed: int = 0, first: int = 5, last: int = 20, **record: Any
    ) -> Target:
        limit = ratio * count_cost(net).macs
        return Target(
            net, make_record(net, **record), tensor_of(prepared.train), TimestepRange(first, last), limit, seed
        )

    return make


@pytest.fixture(scope="session")
def evaluator(tiny_net: Callable[..., UNet2DModel], make_target: MakeTarget, runtime: Runtime) -> Evaluator:
    """Trials of schemes at a limit of 0.7, by 8 images and without fine-tuning."""
    target = make_target(tiny_net().eval())
    anatomy = Anatomy(target.net)
    return Evaluator(target, anatomy, ranked(MAGNITUDE, target, anatomy), 8, None, runtime)


@pytest.fixture
def here(tmp_path: Path, runtime: Runtime) -> Here:
    """A place for a search."""
    return Here(tmp_path, runtime)
