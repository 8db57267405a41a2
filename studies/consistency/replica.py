"""Networks that differ in their width and their first random weights, and in nothing else."""

import torch
from torch import nn

from studies.consistency.settings import with_width
from unequal.models.backbones.backbone import build_network
from unequal.models.spec import ModelSpec
from unequal.randomness import Stream, torch_seed
from unequal.settings.network import UNet2D


def untrained(network: UNet2D, width: str, seed: int, spec: ModelSpec) -> nn.Module:
    """A replica as its training begins.

    Args:
        network: the architecture, but for its channels.
        width: these, written as in `16-32`.
        seed: training seed; the same one gives the same weights.
        spec: of all replicas.

    Raises:
        UserError: no network can have that width.
    """
    torch.manual_seed(torch_seed(seed, Stream.INITIAL_WEIGHTS))
    return build_network(with_width(network, width), spec)
