"""How large the network of a params file is, and what its groups may cost: counted, neither trained nor timed."""

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import torch
from matplotlib.ticker import EngFormatter

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.flops import Cost, count_cost
from unequal.models.network import build_network
from unequal.models.pretrained import load_pretrained
from unequal.settings.groups import Groups
from unequal.settings.params import StudyParams, read_study_params
from unequal.settings.schedule import Schedule
from unequal.timesteps.partition import TimestepGroup, mean_limit, timestep_groups

#: 8.13e9 → `8.130 G`.
readable = EngFormatter(places=3)
HEADER = f"{'network':34} {'parameters':>11} {'FLOPs':>11} {'with attention':>14} {'N':>4} {'k':>5}   mean limit"
NOTE = """\
A FLOP is a multiply–accumulate of one image's forward pass, as in paper 3 without attention's two products.
N groups; k is the smallest model's share of the FLOPs; the mean limit is over all timesteps."""


@dataclass(frozen=True)
class Limits:
    """What groups of timesteps may cost, and k."""

    groups: list[TimestepGroup]
    min_ratio: float

    @classmethod
    def of(cls, schedule: Schedule, groups: Groups) -> "Limits":
        """As the stage that groups timesteps makes them; what a measured loss decides counts as equal everywhere."""
        table = NoiseSchedule.named(schedule.name, schedule.timesteps)
        even = np.ones(schedule.timesteps)
        return cls(timestep_groups(groups.kind, table, len(groups.ids), groups.min_ratio, even), groups.min_ratio)

    @property
    def mean(self) -> float:
        """Mean limit over all timesteps, as a share."""
        return mean_limit(self.groups)


def network_cost(params: StudyParams) -> Cost:
    """Cost of the base; one that is yet to be trained is built without memory for its weights."""
    network, (channels, size) = params.network, seen(params)
    if network.pretrained is not None:
        return count_cost(load_pretrained(network, size, channels))
    with torch.device("meta"):
        return count_cost(build_network(network, size, channels))


def seen(params: StudyParams) -> tuple[int, int]:
    """Channels and size of what the network sees: images, or their latents."""
    size, channels, chosen = params.data.image_size, params.data.channels, params.autoencoder
    return (channels, size) if chosen is None else (chosen.latent_channels, size // chosen.factor)


def summary(name: str, cost: Cost, limits: Limits | None) -> str:
    """A line of the table of networks."""
    figures = [readable(figure) for figure in (cost.parameters, cost.macs, cost.macs_with_attention)]
    line = f"{name:34} {figures[0]:>11} {figures[1]:>11} {figures[2]:>14}"
    if limits is None:
        return line
    share = f"{limits.mean:.4f} = {readable(limits.mean * cost.macs)}"
    return f"{line} {len(limits.groups):4} {limits.min_ratio:5g}   {share}"


def group_lines(name: str, cost: Cost, limits: Limits) -> list[str]:
    """The limit of each group of a network."""
    rows = [
        f"{i:5} {first:6} … {last:5} {limit:8.3f} {readable(limit * cost.macs):>11}"
        for i, (first, last, limit) in enumerate(limits.groups)
    ]
    return [f"\n{name}", f"{'group':>5} {'timesteps':>14} {'limit':>8} {'FLOPs':>11}", *rows]


@click.command()
@click.argument("params_files", type=click.Path(path_type=Path), nargs=-1, required=True)
def main(params_files: tuple[Path, ...]) -> None:
    """Count the networks of PARAMS_FILES and the limits of their groups."""
    click.echo(HEADER)
    details = []
    for path in params_files:
        try:
            params = read_study_params(path)
            cost = network_cost(params)
            limits = Limits.of(params.schedule, params.groups) if params.groups else None
        except UserError as error:
            raise click.ClickException(str(error)) from None
        click.echo(summary(str(path), cost, limits))
        details += group_lines(str(path), cost, limits) if limits else []
    click.echo("\n".join([*details, "", NOTE]))


if __name__ == "__main__":
    main()
