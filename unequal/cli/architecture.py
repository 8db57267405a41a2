"""Size of a params file's network and cost limits of its groups, counted without training or timing."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Self

import numpy as np
import torch
from matplotlib.ticker import EngFormatter
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
from unequal.timesteps.groups import TimestepGroup, mean_limit, timestep_groups

#: 8.13e9 → `8.130 G`.
readable = EngFormatter(places=3)
HEADER = f"{'network':34} {'parameters':>11} {'FLOPs':>11} {'with attention':>14} {'N':>4} {'k':>5}   mean limit"
NOTE = """\
A FLOP is a multiply–accumulate of one image's forward pass, as in paper 3 without attention's two products.
N groups; k is the smallest model's share of the FLOPs; the mean limit is over all timesteps."""


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


def table(files: Sequence[Path]) -> str:
    """Table of the networks of params files and the limits of their groups, as text. Raises UserError."""
    lines, details = [HEADER], list[str]()
    for path in files:
        params = Architecture.read(path)
        cost = network_cost(params)
        line = f"{path!s:34} {readable(cost.parameters):>11} {readable(cost.macs):>11}"
        line += f" {readable(cost.macs_with_attention):>14}"
        if params.groups:
            groups = limited_groups(params.schedule, params.groups)
            mean = mean_limit(groups)
            line += f" {len(groups):4} {params.groups.min_ratio:5g}   {mean:.4f} = {readable(mean * cost.macs)}"
            details += [f"\n{path}", f"{'group':>5} {'timesteps':>14} {'limit':>8} {'FLOPs':>11}"]
            details += [
                f"{i:5} {chosen.first:6} … {chosen.last:5} {limit:8.3f} {readable(limit * cost.macs):>11}"
                for i, (chosen, limit) in enumerate(groups)
            ]
        lines.append(line)
    return "\n".join([*lines, *details, "", NOTE])
