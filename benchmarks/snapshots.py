"""What keeping snapshots costs, as a share of the training that keeps them.

`python -m benchmarks.snapshots PARAMS_FILE` trains one recipe of a study of a grid in a temporary folder, and times the
writing of a snapshot by itself, several times; it prints JSON.
"""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.timing import described, seconds
from unequal.models.backbones.registry import build_network
from unequal.settings.params.core import Core
from unequal.timesteps.samplers import IndependentSampler, uniform
from unequal.tools.architecture import spec_of
from unequal.tools.params import read_params
from unequal.training.batches import BatchSource
from unequal.training.loop import Trainer
from unequal.training.objectives.objective import objective_for

#: Images that batches are taken from: more only take up memory.
IMAGES = 1000


def trainer_of(params: Core, recipe: str, device: torch.device, work: Path) -> Trainer:
    """The recipe's training, on random images."""
    chosen, size, channels = params.recipes[recipe], params.data.image_size, params.data.channels
    schedule = params.schedule.tables()
    images = torch.randint(0, 256, (IMAGES, channels, size, size), dtype=torch.uint8)
    sampler = IndependentSampler(uniform(schedule.timesteps))
    source = BatchSource(images, params.training.batch_size, sampler, params.seed, False, device)
    spec = spec_of(params)
    net = build_network(params.network, spec)
    return Trainer(
        net,
        source,
        objective_for(spec, schedule.to(device)),
        optimizer=chosen.optimizer,
        training=params.training,
        runtime=params.runtime,
        images=chosen.images,
        work=work,
        log=lambda figures, step: None,
        snapshots=chosen.snapshots,
    )


def measure(params: Core, recipe: str, device: torch.device, repeats: int) -> dict[str, Any]:
    """Seconds of the whole training and of one snapshot, and the share of all snapshots."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(params, recipe, device, Path(folder))
        whole = seconds(trainer.run, device)
        weights = trainer.averages.main.state_dict()
        one = statistics.median(seconds(lambda: trainer.snapshots.keep(0, weights), device) for _ in range(repeats))
    return {
        "share": one * len(trainer.snapshots.steps) / whole,
        "snapshot_seconds": one,
        "training_seconds": whole,
        "snapshots": len(trainer.snapshots.steps),
        "images": params.recipes[recipe].images,
        "batch_size": params.training.batch_size,
    } | described(device)


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path))
@click.option("--recipe", default="uniform", show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option("--repeats", default=20, show_default=True)
def main(params_file: Path, recipe: str, device: str, repeats: int) -> None:
    """Time the snapshots of a recipe in PARAMS_FILE."""
    click.echo(json.dumps(measure(read_params(params_file), recipe, torch.device(device), repeats), indent=2))


if __name__ == "__main__":
    main()
