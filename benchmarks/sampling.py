"""Whether sampling with experts is as fast as its FLOPs say: wall time an image, against the base's.

`python -m benchmarks.sampling` takes the models of a finished pipeline (`--models artifacts/models`), or builds
untrained ones of the same sizes from the params file where there are none; the weights do not matter. Contestants
sample the same images in turns, in an order that is turned round from round to round, and the ratio is the median
over rounds, by processor time on a CPU. `time_ratio` beside `flops_ratio` says whether the FLOPs saved are time saved.
"""

import json
import statistics
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from operator import truediv
from pathlib import Path
from typing import Any

import click
import torch
from torch import nn

from benchmarks.timing import described, in_turns
from unequal.diffusion.ddim import sampling_timesteps
from unequal.errors import UserError
from unequal.files import write_json
from unequal.models.backbones.registry import build_network
from unequal.models.denoiser import Denoiser
from unequal.models.flops import count_cost
from unequal.models.folder import ModelRecord
from unequal.pruning.anatomy import Anatomy
from unequal.pruning.fit import fit_to_limit
from unequal.pruning.units import units_by
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.timesteps.partition import TimestepRange, TimestepSet
from unequal.tools.architecture import Limits, spec_of

BASE = "base"
CONTESTANTS = (BASE, "experts_unpruned", "experts_pruned")


def trained(folder: Path, names: Sequence[str], device: torch.device, resident: bool | None) -> dict[str, Ensemble]:
    """The models of a finished pipeline. Raises UserError where one is missing."""
    return {name: Ensemble.load(folder / name, device, resident=resident) for name in names}


def untrained(params: Params, device: torch.device) -> dict[str, Ensemble]:
    """Base, unpruned and pruned experts of the sizes that a params file gives them, with random weights."""
    net = build_network(params.network, spec_of(params))
    groups = Limits.of(params.schedule, params.groups).groups
    whole, ranges = [TimestepRange(0, params.schedule.timesteps - 1)], [group.range for group in groups]
    anatomy = Anatomy(net)
    # As good as any: what goes first changes no cost.
    order = units_by(lambda group: torch.rand(len(group[0].idxs)), anatomy)
    pruned = [fit_to_limit(anatomy, order, group.limit_ratio * count_cost(net).macs).net for group in groups]
    return {
        BASE: experts_of([net], whole, params, device),
        "experts_unpruned": experts_of([deepcopy(net) for _ in groups], ranges, params, device),
        "experts_pruned": experts_of(pruned, ranges, params, device),
    }


def experts_of(
    nets: Sequence[nn.Module], ranges: Sequence[TimestepSet], params: Params, device: torch.device
) -> Ensemble:
    """Networks that answer for these ranges of timesteps."""
    experts = []
    for net, one in zip(nets, ranges, strict=True):
        record = untrained_record(net, params).changed(first=one.first, last=one.last)
        experts.append(Expert(Denoiser(net.to(device), record.spec), record))
    return Ensemble(experts)


def untrained_record(net: nn.Module, params: Params) -> ModelRecord:
    """The record of a network that has seen nothing."""
    cost = count_cost(net)
    return ModelRecord(
        name="untrained",
        spec=spec_of(params),
        backbone=params.network.kind,
        seed=params.seed,
        steps=0,
        images_seen=0,
        training_flops=0,
        macs=cost.macs,
        macs_with_attention=cost.macs_with_attention,
        parameters=cost.parameters,
        first=0,
        last=params.schedule.timesteps - 1,
    )


def measure(
    contestants: Mapping[str, Ensemble], timesteps: Sequence[int], images: int, batch_size: int, rounds: int
) -> dict[str, Any]:
    """Seconds an image of every contestant and round, and medians of their ratios to the base's."""
    device = contestants[BASE].device
    rounds_done = dict.fromkeys(contestants, -1)

    def sample(name: str) -> None:
        """The first time warms up, with the first round's images."""
        contestants[name].sample(images, timesteps, seed=max(0, rounds_done[name]), batch_size=batch_size)
        rounds_done[name] += 1

    totals = in_turns({name: partial(sample, name) for name in contestants}, rounds, device)
    times = {name: [taken / images for taken in found] for name, found in totals.items()}
    base = contestants[BASE]
    return {
        name: {
            "time_ratio": statistics.median(map(truediv, times[name], times[BASE])),
            "flops_ratio": experts.macs_per_image(timesteps) / base.macs_per_image(timesteps),
            "seconds_per_image": times[name],
            "parameters": experts.parameters,
            "resident": experts.offload is None,
        }
        for name, experts in contestants.items()
    } | {"images": images, "batch_size": batch_size, "steps": len(timesteps)}


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--models", type=click.Path(path_type=Path), default=Path("artifacts/models"), show_default=True)
@click.option("--variant", "variants", multiple=True, default=CONTESTANTS, show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option("--images", default=64, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--resident/--one-at-a-time", default=None, help="of the trained experts; default: as memory allows")
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write besides")
def main(
    params_file: Path,
    models: Path,
    variants: tuple[str, ...],
    device: str,
    images: int,
    rounds: int,
    resident: bool | None,
    output: Path | None,
) -> None:
    """Time sampling with the models of PARAMS_FILE."""
    try:
        params, place = Params.read(params_file), torch.device(device)
        found = (models / BASE).exists()
        contestants = trained(models, variants, place, resident) if found else untrained(params, place)
        timesteps = sampling_timesteps(params.sampling.steps, params.schedule.timesteps, params.sampling.spacing)
    except UserError as error:
        raise click.ClickException(str(error)) from None
    batch = min(images, params.sampling.batch_size)
    result = measure(contestants, timesteps, images, batch, rounds) | {"trained": found} | described(place)
    click.echo(json.dumps(result, indent=2))
    for name in contestants:
        one = result[name]
        click.echo(f"{name:24} {one['time_ratio']:.3f} of the base's time for {one['flops_ratio']:.3f} of its FLOPs")
    if output is not None:
        write_json(output, result)


if __name__ == "__main__":
    main()
