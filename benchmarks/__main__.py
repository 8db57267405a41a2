"""All benchmarks, one after the other: `python -m benchmarks`, or `python -m benchmarks --gpu`.

The figures are written into benchmarks/cpu.json, those of a GPU into benchmarks/cuda.json, and shown as the table
of docs/performance.md. `--only` names some benchmarks; `--table` runs none and shows the table.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks import data, growth, overhead, profile, sampling, steps, training
from benchmarks.table import table
from benchmarks.timing import keep
from unequal.diffusion.spacing import sampling_timesteps
from unequal.settings.params import Params

DIGITS, PATCHES, COLOUR, IDDPM = (
    Path("presets") / f"{name}.yaml" for name in ("digits", "patches-large", "own-images-32", "cifar10-iddpm")
)
Benchmark = Callable[[], Mapping[str, Any]]


def params_of(path: Path, device: torch.device, batch_size: int | None = None) -> Params:
    """A preset as both training loops can run it."""
    return training.comparable(Params.read(path), device, batch_size)


def experts(path: Path, device: torch.device, images: int, count: int, rounds: int) -> dict[str, Any]:
    """Sampling with untrained experts of a preset's sizes, and their FLOPs."""
    params = Params.read(path)
    timesteps = sampling_timesteps(count, params.schedule.timesteps, params.sampling.spacing)
    return sampling.measure(sampling.untrained(params, device), timesteps, images, images, rounds)


def on_cpu(device: torch.device) -> dict[str, Benchmark]:
    """Sizes that take minutes on a core or two."""
    digits, colour = (partial(Params.read, path) for path in (DIGITS, COLOUR))
    return {
        "training_digits": lambda: training.measure(params_of(DIGITS, device), device, 20, 9, also_compiled=True),
        "training_cifar10": lambda: training.measure(params_of(IDDPM, device, 4), device, 1, 3),
        "training_cifar10_single": lambda: training.measure(params_of(IDDPM, device, 1), device, 2, 5),
        "passes_unet": lambda: training.measure_beside_passes(params_of(PATCHES, device, 32), device, 2, 7),
        "passes_dit": lambda: training.measure_beside_passes(
            training.transformer(params_of(PATCHES, device, 32)), device, 4, 7
        ),
        "pipeline_digits": lambda: sampling.pipelines(digits(), device, 20, 128, 7),
        "pipeline_colour": lambda: sampling.pipelines(colour(), device, 5, 8, 5),
        "experts_digits": lambda: experts(DIGITS, device, 64, 50, 5),
        "experts_colour": lambda: experts(COLOUR, device, 4, 10, 5),
        "profile": lambda: profile.measure(digits(), device, 5, images=8),
        "data": lambda: data.measure(params_of(DIGITS, device, 16), device, 100_000, 64, 5, 300, 3),
        "shares": lambda: steps.shares(params_of(DIGITS, device), device, 50, 3),
        "own_loop": lambda: steps.own_loop(params_of(DIGITS, device), device, 20, 7),
        "gradient_surgery": lambda: steps.gradient_surgery(params_of(PATCHES, device, 128), device, 2, 7),
        "checkpoint": lambda: steps.checkpoints(digits(), device, 20, 15),
        "overhead": lambda: overhead.measure(5),
        "growth": lambda: growth.measure(DIGITS, device, 100, 3),
        "utilisation": lambda: training.utilisation(params_of(IDDPM, device, 4), device, 1, 3, 1024, 20),
    }


def on_gpu(device: torch.device) -> dict[str, Benchmark]:
    """Benchmarks on a GPU, at the presets' batches, compiled and in bf16 where they say so."""
    digits, colour = (partial(Params.read, path) for path in (DIGITS, COLOUR))
    return {
        "training_digits": lambda: training.measure(compiled(params_of(DIGITS, device)), device, 200, 9),
        "training_cifar10": lambda: training.measure(compiled(params_of(IDDPM, device)), device, 20, 9),
        "passes_unet": lambda: training.measure_beside_passes(compiled(params_of(PATCHES, device)), device, 100, 7),
        "passes_dit": lambda: training.measure_beside_passes(
            training.transformer(compiled(params_of(PATCHES, device))), device, 100, 7
        ),
        "pipeline_digits": lambda: sampling.pipelines(digits(), device, 50, 256, 7),
        "pipeline_colour": lambda: sampling.pipelines(colour(), device, 50, 256, 7),
        "experts_digits": lambda: experts(DIGITS, device, 256, 50, 7),
        "experts_colour": lambda: experts(COLOUR, device, 256, 50, 7),
        "experts_cifar10": lambda: experts(IDDPM, device, 128, 50, 5),
        "profile": lambda: profile.measure(digits(), device, 5),
        "data": lambda: data.measure(compiled(params_of(IDDPM, device)), device, 100_000, 64, 50, 300, 3),
        "shares": lambda: steps.shares(compiled(params_of(IDDPM, device)), device, 100, 3),
        "gradient_surgery": lambda: steps.gradient_surgery(compiled(params_of(PATCHES, device)), device, 50, 7),
        "overhead": lambda: overhead.measure(5),
        "utilisation": lambda: training.utilisation(compiled(params_of(IDDPM, device)), device, 50, 7, 8192, 50),
    }


def compiled(params: Params) -> Params:
    """With everything that makes a GPU faster and changes results by rounding alone."""
    runtime = params.runtime.model_copy(update={"channels_last": True})
    return training.compiled(params.model_copy(update={"runtime": runtime}))


def one_thread() -> None:
    """Here and in programs that are started: processor time then is what a machine of one's own would take."""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)


@click.command(help=__doc__)
@click.option("--gpu", is_flag=True)
@click.option("--only", multiple=True, help="names of benchmarks; default: all")
@click.option("--table", "only_table", is_flag=True, help="show the recorded figures, and measure nothing")
def main(gpu: bool, only: tuple[str, ...], only_table: bool) -> None:
    """Measure, and write the figures."""
    if only_table:
        click.echo(table("cuda" if gpu else "cpu"))
        return
    if gpu and not torch.cuda.is_available():
        raise click.ClickException("--gpu: PyTorch finds no CUDA device")
    device = torch.device("cuda" if gpu else "cpu")
    if not gpu:
        one_thread()
    known = on_gpu(device) if gpu else on_cpu(device)
    if unknown := set(only) - known.keys():
        raise click.ClickException(f"--only {min(unknown)}: no such benchmark; allowed: {', '.join(known)}")
    for name in only or known:
        click.echo(keep(name, known[name](), device))
    click.echo(table(device.type))


if __name__ == "__main__":
    main()
