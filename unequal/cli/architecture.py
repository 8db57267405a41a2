"""Size of a params file's network and cost limits of its groups, counted without training or timing."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from matplotlib.ticker import EngFormatter
from pydantic import ConfigDict
from torch import nn

from unequal.diffusion.predictions import Prediction
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


class Architecture(Strict):
    """Sections of any kind of params file that determine its network and its groups; others are ignored."""

    model_config = ConfigDict(extra="ignore")

    data: Data
    schedule: Schedule
    network: AnyNetwork
    autoencoder: AnyAutoencoder | None = None
    groups: Groups | None = None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check these sections. Raises UserError."""
        return validate(cls, read_yaml(path), path)


@dataclass(frozen=True)
class Limits:
    """Cost limits of groups of timesteps, and k."""

    groups: list[TimestepGroup]
    min_ratio: float

    @classmethod
    def of(cls, schedule: Schedule, groups: Groups) -> "Limits":
        """Limits as set by the stage that groups timesteps; a measured loss is assumed to be equal at all timesteps."""
        table = schedule.tables()
        even = np.ones(schedule.timesteps)
        return cls(timestep_groups(groups.kind, table, len(groups.ids), groups.min_ratio, even), groups.min_ratio)

    @property
    def mean(self) -> float:
        """Mean limit over all timesteps, as a share."""
        return mean_limit(self.groups)


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


def summary(name: str, cost: Cost, limits: Limits | None) -> str:
    """Line of the table of networks."""
    figures = [readable(figure) for figure in (cost.parameters, cost.macs, cost.macs_with_attention)]
    line = f"{name:34} {figures[0]:>11} {figures[1]:>11} {figures[2]:>14}"
    if limits is None:
        return line
    share = f"{limits.mean:.4f} = {readable(limits.mean * cost.macs)}"
    return f"{line} {len(limits.groups):4} {limits.min_ratio:5g}   {share}"


def group_lines(name: str, cost: Cost, limits: Limits) -> list[str]:
    """Lines with the limit of each group of a network."""
    rows = [
        f"{i:5} {chosen.first:6} … {chosen.last:5} {limit:8.3f} {readable(limit * cost.macs):>11}"
        for i, (chosen, limit) in enumerate(limits.groups)
    ]
    return [f"\n{name}", f"{'group':>5} {'timesteps':>14} {'limit':>8} {'FLOPs':>11}", *rows]


def table(files: Sequence[Path]) -> str:
    """Table of the networks of params files and the limits of their groups, as text. Raises UserError."""
    lines, details = [HEADER], list[str]()
    for path in files:
        params = Architecture.read(path)
        cost = network_cost(params)
        limits = Limits.of(params.schedule, params.groups) if params.groups else None
        lines.append(summary(str(path), cost, limits))
        details += group_lines(str(path), cost, limits) if limits else []
    return "\n".join([*lines, *details, "", NOTE])
