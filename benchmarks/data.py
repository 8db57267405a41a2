"""How long a training step waits for data that is not in memory.

`python -m benchmarks.data` writes images of 64×64 into a temporary folder, drops them from the system's cache, and
trains on the mapped file: with all of them shuffled together and each batch gathered when it is asked for; shuffled
in windows; and in windows with the next batch gathered ahead, as large sets are. It also lets nothing but the
gathering run.
"""

import os
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import torch

from benchmarks.shares import watched
from benchmarks.timing import keep, seconds
from benchmarks.training import advance, comparable, our_loop
from unequal.data.pixels import tensor_of
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.timesteps.samplers import IndependentSampler, uniform
from unequal.training.batches import BatchSource
from unequal.training.shuffling import WINDOW_BYTES

IMAGES_AT_ONCE = 1000
#: (shuffled in windows, gathered ahead) of every way to read.
WAYS = {"whole": (False, False), "windows": (True, False), "windows_ahead": (True, True)}


def generate(path: Path, images: int, size: int) -> None:
    """Write uint8 images [N, 3, size, size] of no meaning."""
    mapped = np.lib.format.open_memmap(path, "w+", np.uint8, (images, 3, size, size))
    generator = np.random.default_rng(0)
    for start in range(0, images, IMAGES_AT_ONCE):
        part = mapped[start : start + IMAGES_AT_ONCE]
        part[:] = generator.integers(0, 256, part.shape, dtype=np.uint8)
    mapped.flush()


def forget(path: Path) -> None:
    """Drop a file from the system's cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def source_of(path: Path, way: str, params: Params, device: torch.device) -> BatchSource:
    """The mapped file, read in one of the ways."""
    images = tensor_of(np.load(path, mmap_mode="r"))
    windows, ahead = WAYS[way]
    window = WINDOW_BYTES // images[0].nbytes if windows else None
    sampler = IndependentSampler(uniform(params.schedule.timesteps))
    return BatchSource(images, params.training.batch_size, sampler, 0, True, device, window, ahead)


def waiting(path: Path, way: str, params: Params, device: torch.device, steps: int) -> dict[str, float]:
    """Seconds a step, and those of them that pass until its batch is there."""
    source = source_of(path, way, params, device)
    with tempfile.TemporaryDirectory() as work:
        trainer = our_loop(params, device, Path(work), source)
        advance(trainer, 2)
        forget(path)
        with watched(BatchSource, "draw", torch.device("cpu"), clock=seconds) as waited:
            whole = seconds(lambda: advance(trainer, steps), device)
    return {"step": whole / steps, "wait": sum(waited) / steps, "share": sum(waited) / whole}


def gathering(path: Path, way: str, params: Params, batches: int) -> float:
    """Images a second that come from a cold file where nothing else is done."""
    source = source_of(path, way, params, torch.device("cpu"))
    forget(path)

    def gather() -> None:
        for step in range(batches):
            source.gathered(step, slice(None))

    return params.training.batch_size * batches / seconds(gather, source.device)


def measure(
    params: Params, device: torch.device, images: int, size: int, steps: int, batches: int, rounds: int
) -> dict[str, Any]:
    """All ways, in turns; medians over rounds."""
    data = params.data.model_copy(update={"image_size": size, "channels": 3})
    params = params.model_copy(update={"data": data})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npy"
        generate(path, images, size)
        steps_of = {way: partial(waiting, path, way, params, device, steps) for way in WAYS}
        found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
        speeds: dict[str, list[float]] = {way: [] for way in ("whole", "windows")}
        for _ in range(rounds):
            for way, one in steps_of.items():
                found[way].append(one())
            for way, speed in speeds.items():
                speed.append(gathering(path, way, params, batches))
    return {
        "seconds": {way: {name: median(one[name] for one in of) for name in of[0]} for way, of in found.items()},
        "gathered_per_second": {way: median(speed) for way, speed in speeds.items()},
        "images": images,
        "image": [3, size, size],
        "batch_size": params.training.batch_size,
        "steps": steps,
        "rounds": rounds,
        "every_round": {"seconds": found, "gathered_per_second": speeds},
    }


@click.command()
@click.argument("params_file", type=click.Path(path_type=Path), default=PARAMS)
@click.option("--device", default="cpu", show_default=True)
@click.option("--images", default=100_000, show_default=True)
@click.option("--size", default=64, show_default=True)
@click.option("--batch-size", default=16, show_default=True)
@click.option("--steps", default=10, show_default=True)
@click.option("--batches", default=300, show_default=True, help="that are only gathered")
@click.option("--rounds", default=3, show_default=True)
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(
    params_file: Path,
    device: str,
    images: int,
    size: int,
    batch_size: int,
    steps: int,
    batches: int,
    rounds: int,
    name: str | None,
) -> None:
    """Train the network of PARAMS_FILE on generated images that are read from disk."""
    place = torch.device(device)
    params = comparable(Params.read(params_file), place, batch_size)
    result = measure(params, place, images, size, steps, batches, rounds)
    for way, found in result["seconds"].items():
        click.echo(f"{way:14} {1e3 * found['wait']:8.2f} ms of {1e3 * found['step']:8.1f} ms a step")
    for way, speed in result["gathered_per_second"].items():
        click.echo(f"{way:14} {speed:10.0f} images/s gathered from a cold file")
    if name is not None:
        keep(name, result, place)


if __name__ == "__main__":
    main()
