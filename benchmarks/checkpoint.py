"""What writing checkpoints costs, as a share of the training that writes them.

`python -m benchmarks.checkpoint` times steps of the base's training and the writing of its state by turns, and prints
JSON. `share` is the part of a training's time that goes into checkpoints at the file's `training.checkpoint_every`.
"""

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch

from benchmarks.snapshots import trainer_of
from benchmarks.timing import described, seconds
from unequal.files import write_json
from unequal.settings.params.core import Core
from unequal.settings.strict import PARAMS
from unequal.tools.params import read_params
from unequal.training.loop import CHECKPOINT, Trainer


def measure(params: Core, recipe: str, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Median seconds of a step and of a checkpoint, and the share that the settings make of them."""
    every = params.training.checkpoint_every
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        trainer = trainer_of(params, recipe, device, Path(folder))
        advance(trainer, steps)
        trainer.save()
        turns = [
            (seconds(lambda: advance(trainer, steps), device), seconds(trainer.save, device)) for _ in range(rounds)
        ]
        size = (Path(folder) / CHECKPOINT).stat().st_size
    step, save = median(stepping for stepping, _ in turns) / steps, median(saving for _, saving in turns)
    return {
        "share": save / (every * step + save),
        "checkpoint_every": every,
        "checkpoint_seconds": save,
        "checkpoint_bytes": size,
        "step_seconds": step,
        "batch_size": params.training.batch_size,
        "rounds": rounds,
    } | described(device)


def advance(trainer: Trainer, steps: int) -> None:
    """Train for some steps."""
    for _ in range(steps):
        trainer.interval.add(trainer.train_step())
        trainer.step += 1


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--recipe", default="base", show_default=True)
@click.option("--device", default="cpu", show_default=True)
@click.option("--steps", default=20, show_default=True, help="Steps between two checkpoints, for the timing alone.")
@click.option("--rounds", default=15, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="JSON file to write besides")
def main(params_file: Path, recipe: str, device: str, steps: int, rounds: int, output: Path | None) -> None:
    """Time the checkpoints of a recipe in PARAMS_FILE, in a temporary folder below the working directory."""
    result = measure(read_params(params_file), recipe, torch.device(device), steps, rounds)
    click.echo(json.dumps(result, indent=2))
    if output is not None:
        write_json(output, result)


if __name__ == "__main__":
    main()
