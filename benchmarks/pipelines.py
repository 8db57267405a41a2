"""DDIM sampling against diffusers' DDIMPipeline: the same network, steps, batch and device.

`python -m benchmarks.pipelines [PARAMS_FILE]` samples with both in turns. The pipeline hands out arrays, as this
library does: no images are encoded.
"""

from pathlib import Path
from statistics import median
from typing import Any

import click
import torch
from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler

from benchmarks.sampling import experts_of
from benchmarks.timing import in_turns, keep, ratio
from unequal.diffusion.ddim import sampling_timesteps
from unequal.models.backbones.registry import build_network
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.timesteps.partition import TimestepRange
from unequal.tools.architecture import spec_of


def measure(params: Params, device: torch.device, steps: int, images: int, rounds: int) -> dict[str, Any]:
    """Seconds of both, and theirs over ours."""
    params = params.model_copy(update={"network": params.network.model_copy(update={"variance": "fixed"})})
    net = build_network(params.network, spec_of(params))
    whole = [TimestepRange(0, params.schedule.timesteps - 1)]
    ours = experts_of([net], whole, params, device)
    theirs = DDIMPipeline(net, DDIMScheduler(num_train_timesteps=params.schedule.timesteps))
    theirs.set_progress_bar_config(disable=True)
    timesteps = sampling_timesteps(steps, params.schedule.timesteps, params.sampling.spacing)
    times = in_turns(
        {
            "ours": lambda: ours.sample(images, timesteps, batch_size=images),
            "diffusers": lambda: theirs(batch_size=images, num_inference_steps=steps, output_type="np"),
        },
        rounds,
        device,
    )
    return {
        "ratio": ratio(times["diffusers"], times["ours"]),
        "images_per_second": {name: images / median(taken) for name, taken in times.items()},
        "seconds": times,
        "steps": steps,
        "batch_size": images,
        "rounds": rounds,
        "image": [params.data.channels, params.data.image_size, params.data.image_size],
    }


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--device", default="cpu", show_default=True)
@click.option("--steps", default=20, show_default=True)
@click.option("--images", default=64, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(params_file: Path, device: str, steps: int, images: int, rounds: int, name: str | None) -> None:
    """Time DDIM with the network of PARAMS_FILE."""
    place = torch.device(device)
    result = measure(Params.read(params_file), place, steps, images, rounds)
    click.echo(f"ours over diffusers' {result['ratio']['median']:.2f}")
    if name is not None:
        keep(name, result, place)


if __name__ == "__main__":
    main()
