"""What drawing and learning timesteps adds to a step of a loop: `python -m benchmarks.own_loop [PARAMS_FILE]`.

The share of `Timesteps` with the sampler that learns from losses, held against the network's passes alone, forwards and
backwards: whatever else a loop does makes its steps longer, and the share smaller.
"""

from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.timing import in_turns, keep, ratio
from benchmarks.training import comparable, passes
from unequal.loops.timesteps import Timesteps
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.timesteps.samplers import LossSecondMomentSampler


def draws(timesteps: int, batch_size: int, device: torch.device, steps: int) -> None:
    """So many draws, each of which is learned from."""
    sampler = LossSecondMomentSampler(timesteps, history=10, uniform_share=0.001, unbiased=True)
    drawing, losses = Timesteps(sampler), torch.rand(batch_size, device=device)
    for _ in range(steps):
        drawing.draw(batch_size, device)
        drawing.learn(losses)


def measure(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds of the draws and of the passes, and the one over the other."""
    batch_size = params.training.batch_size
    work = {
        "timesteps": partial(draws, params.schedule.timesteps, batch_size, device, steps),
        "passes": partial(passes(params, device), steps),
    }
    times = in_turns(work, rounds, device)
    conditions = {"batch_size": batch_size, "steps": steps, "rounds": rounds}
    return {"share": ratio(times["timesteps"], times["passes"]), "seconds": times} | conditions


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--device", default="cpu", show_default=True)
@click.option("--steps", default=20, show_default=True)
@click.option("--rounds", default=9, show_default=True)
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(params_file: Path, device: str, steps: int, rounds: int, name: str | None) -> None:
    """Time draws beside the passes of the network of PARAMS_FILE."""
    place = torch.device(device)
    result = measure(comparable(Params.read(params_file), place, None), place, steps, rounds)
    click.echo(f"share of a step {100 * result['share']['median']:.2f} %")
    if name is not None:
        keep(name, result, place)


if __name__ == "__main__":
    main()
