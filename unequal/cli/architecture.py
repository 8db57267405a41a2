"""Network of a params file and cost limits of its groups, without training or timing."""

from contextlib import nullcontext
from pathlib import Path
from typing import Self

import numpy as np
import torch
from pydantic import ConfigDict
from torch import nn

from unequal.diffusion.predictions import Prediction
from unequal.diffusion.schedule import noise_schedule
from unequal.models.backbones.backbone import Cost, build_network, count_cost, load_pretrained
from unequal.models.spec import ModelSpec, Space
from unequal.settings.core import Core
from unequal.settings.data import AnyAutoencoder, Data
from unequal.settings.groups import Groups
from unequal.settings.network import AnyNetwork
from unequal.settings.schedule import Schedule
from unequal.settings.strict import Strict, read_yaml, validate
from unequal.timesteps.groups import TimestepGroup, timestep_groups


class Sections(Strict):
    """Some sections of any kind of params file; others are ignored."""

    model_config = ConfigDict(extra="ignore")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check these sections. Raises UserError."""
        return validate(cls, read_yaml(path), path)


class Architecture(Sections):
    """Sections that determine a network and its groups."""

    data: Data
    schedule: Schedule
    network: AnyNetwork
    autoencoder: AnyAutoencoder | None = None
    groups: Groups | None = None


def limited_groups(schedule: Schedule, groups: Groups) -> list[TimestepGroup]:
    """Groups with cost limits, as the stage makes them; a measured loss is assumed to be equal at all timesteps."""
    even = np.ones(schedule.timesteps)
    return timestep_groups(groups.kind, noise_schedule(schedule), len(groups.ids), groups.min_ratio, even)


def network_space(params: Architecture | Core) -> Space:
    """Space in which the network works: images, or latents of an autoencoder that may not exist yet."""
    size, channels = params.data.image_size, params.data.channels
    chosen: AnyAutoencoder | None = getattr(params, "autoencoder", None)
    if chosen is None:
        return Space(channels=channels, size=size)
    return Space(channels=chosen.latent_channels, size=size // chosen.factor)


def spec_of(params: Architecture | Core, prediction: Prediction = "epsilon") -> ModelSpec:
    """Inputs and outputs of the base; all predictions of a single quantity cost the same."""
    return ModelSpec.of(params.network, params.schedule, prediction, network_space(params))


def network_of(params: Architecture | Core) -> nn.Module:
    """Network of the base, with fresh weights or the settings' pretrained ones. Raises UserError."""
    make = build_network if params.network.pretrained is None else load_pretrained
    return make(params.network, spec_of(params))


def network_cost(params: Architecture) -> Cost:
    """Cost of the base; an untrained network is built without memory for its weights."""
    with torch.device("meta") if params.network.pretrained is None else nullcontext():
        return count_cost(network_of(params))
