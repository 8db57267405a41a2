"""What remedies of conflicts between timesteps cost: `python -m benchmarks.remedies [PARAMS_FILE]`.

The same training without one, with a learned uncertainty of each of five clusters of timesteps, with PCGrad between
their gradients and with Nash's bargain, in turns.
"""

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.timing import in_turns, keep, ratio
from benchmarks.training import advance, comparable, our_loop
from unequal.settings.loss_weights import LearnedClusterUncertainty
from unequal.settings.params.pipeline import Params
from unequal.settings.recipe import Conflicts, Recipe
from unequal.settings.strict import PARAMS

#: As ANT takes them (2306.00354).
CLUSTERS = 5


def recipes(params: Params) -> Mapping[str, Recipe]:
    """The base's recipe without a remedy, and with each."""
    remedies: dict[str, dict[str, Any]] = {
        "none": {},
        "cluster uncertainty": {
            "loss_weight": LearnedClusterUncertainty(kind="cluster_uncertainty", clusters=CLUSTERS)
        },
        "PCGrad": {"conflicts": Conflicts(kind="pcgrad", clusters=CLUSTERS)},
        "Nash": {"conflicts": Conflicts(kind="nash", clusters=CLUSTERS)},
    }
    return {name: params.recipes["base"].model_copy(update=update) for name, update in remedies.items()}


def measure(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds of so many steps with each remedy, and over those without one."""
    with tempfile.TemporaryDirectory() as folder:
        work = {
            name: partial(advance, our_loop(params, device, Path(folder) / name, recipe=recipe), steps)
            for name, recipe in recipes(params).items()
        }
        times = in_turns(work, rounds, device)
    over = {name: ratio(taken, times["none"]) for name, taken in times.items() if name != "none"}
    conditions = {"batch_size": params.training.batch_size, "clusters": CLUSTERS, "steps": steps, "rounds": rounds}
    return {"over_none": over, "seconds": times} | conditions


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--device", default="cpu", show_default=True)
@click.option("--steps", default=20, show_default=True)
@click.option("--rounds", default=9, show_default=True)
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(params_file: Path, device: str, steps: int, rounds: int, name: str | None) -> None:
    """Time the training of PARAMS_FILE's base with each remedy."""
    place = torch.device(device)
    result = measure(comparable(Params.read(params_file), place, None), place, steps, rounds)
    for remedy, found in result["over_none"].items():
        click.echo(f"{remedy:20} {found['median']:.2f} of the time without one")
    if name is not None:
        keep(name, result, place)


if __name__ == "__main__":
    main()
