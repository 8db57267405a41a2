"""All benchmarks, one after the other: `python -m benchmarks`, or `python -m benchmarks --gpu`.

The figures are written into benchmarks/cpu.json, those of a GPU into benchmarks/cuda.json, and shown as the table
of docs/performance.md. `--only` names some benchmarks; `--table` runs none and shows the table. `--trial` runs them in
the smallest sizes, on any device, and writes nothing; on a GPU it compiles too.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks import data, overhead, profile, sampling, scoring, steps, training
from benchmarks.table import shown, table
from benchmarks.timing import keep
from unequal.diffusion.spacing import sampling_timesteps
from unequal.settings.params import Params

DIGITS, PATCHES, COLOUR, DDPM, IDDPM = (
    Path("presets") / f"{name}.yaml"
    for name in ("digits", "patches-large", "own-images-32", "cifar10-ddpm", "cifar10-iddpm")
)
Benchmark = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Sizes:
    """Sizes of benchmarks on a device; `trial`: the smallest of all, of the digits' network."""

    device: torch.device
    trial: bool = False

    def params(self, path: Path, batch_size: int | None = None) -> Params:
        """A preset as all training loops can run it."""
        read = Params.read(DIGITS if self.trial else path)
        return training.comparable(read, self.device, 4 if self.trial else batch_size)

    def compiled(self, path: Path) -> Params:
        """A preset with a compiled network, but on a CPU."""
        params = self.params(path)
        return training.with_compiler(params) if self.device.type == "cuda" else params

    def eager(self, path: Path, batch_size: int | None = None) -> Params:
        """A preset whose network is not compiled: for each of many trainings that would take longer than to measure."""
        return training.with_compiler(self.params(path, batch_size), compiled=False)

    def of(self, *numbers: int) -> list[int]:
        """Numbers of steps, rounds or images; in a trial one each."""
        return [min(number, 1) for number in numbers] if self.trial else list(numbers)

    def train(self, path: Path, batch_size: int | None, steps: int, rounds: int, *ways: str) -> Mapping[str, Any]:
        """A benchmark of training loops, as they are or in some ways."""
        steps, rounds = self.of(steps, rounds)
        return training.measure(self.params(path, batch_size), self.device, steps, rounds, self.ways(*ways))

    def ways(self, *ways: str) -> tuple[str, ...]:
        """Ways of calling networks; a trial on a CPU compiles nothing."""
        return ways if ways and not (self.trial and self.device.type == "cpu") else ("",)

    def transformer(self, path: Path, batch_size: int, steps: int, rounds: int, **network: int) -> Mapping[str, Any]:
        """A benchmark of training loops around a transformer."""
        params = training.transformer(self.params(path, batch_size), **({} if self.trial else network))
        steps, rounds = self.of(steps, rounds)
        ways = ("", training.COMPILED) if self.device.type == "cuda" else ("",)
        return training.measure(params, self.device, steps, rounds, self.ways(*ways))

    def pipelines(self, path: Path, steps: int, images: int, rounds: int) -> Mapping[str, Any]:
        """Sampling, by this library and by diffusers."""
        params = Params.read(DIGITS if self.trial else path)
        steps, images, rounds = self.of(steps, images, rounds)
        return sampling.pipelines(params, self.device, steps, images, rounds, fast=self.device.type == "cuda")

    def experts(self, path: Path, images: int, steps: int, rounds: int) -> Mapping[str, Any]:
        """Sampling with untrained experts of a preset's sizes, and their FLOPs."""
        params = Params.read(DIGITS if self.trial else path)
        images, steps, rounds = self.of(images, steps, rounds)
        timesteps = sampling_timesteps(steps, params.schedule.timesteps, params.sampling.spacing)
        return sampling.measure(sampling.untrained(params, self.device), timesteps, images, images, rounds)

    def profile(self, rounds: int, images: int | None) -> Mapping[str, Any]:
        """The loss profile of the digits' network."""
        params = Params.read(DIGITS)
        if self.trial:
            params = params.model_copy(update={"schedule": params.schedule.model_copy(update={"timesteps": 30})})
        return profile.measure(params, self.device, 1 if self.trial else rounds, 2 if self.trial else images)

    def scoring(self, images: int, count: int, features: int, subset: int, rounds: int) -> Mapping[str, Any]:
        """Features and distances."""
        sizes = (2, 40, 8, 4, 1) if self.trial else (images, count, features, subset, rounds)
        return scoring.measure(self.device, *sizes)

    def data(self, path: Path, batch_size: int | None, steps: int) -> Mapping[str, Any]:
        """Waits for images of 64 × 64 pixels on disk."""
        sizes = (40, 8, 2, 3, 1) if self.trial else (100_000, 64, steps, 300, 3)
        return data.measure(self.eager(path, batch_size), self.device, *sizes)

    def full_data(self, path: Path, batch_size: int | None, steps: int) -> Mapping[str, Any]:
        """Prepare as many images as ImageNet's, of 16 × 16 pixels, and read them from disk."""
        sizes = (200, 8, 2) if self.trial else (1_281_167, 16, steps)
        return data.measure_full(self.eager(path, batch_size), self.device, *sizes)


def on_cpu(sizes: Sizes) -> dict[str, Benchmark]:
    """Sizes that take minutes on a core or two."""
    params, device, of = sizes.params, sizes.device, sizes.of
    return {
        "training_digits": lambda: sizes.train(DIGITS, None, 10, 7, "", training.COMPILED),
        "training_digits_32": lambda: sizes.train(DIGITS, 32, 20, 7, "", training.COMPILED),
        "training_iddpm": lambda: sizes.train(IDDPM, 4, 1, 3),
        "training_iddpm_single": lambda: sizes.train(IDDPM, 1, 2, 5),
        "training_unet": lambda: sizes.train(PATCHES, 32, 2, 7),
        "training_dit": lambda: sizes.transformer(PATCHES, 32, 4, 7),
        "pipeline_digits": lambda: sizes.pipelines(DIGITS, 20, 128, 7),
        "pipeline_colour": lambda: sizes.pipelines(COLOUR, 5, 8, 5),
        "scoring": lambda: sizes.scoring(64, 4096, 256, 1000, 3),
        "experts_digits": lambda: sizes.experts(DIGITS, 64, 50, 5),
        "experts_colour": lambda: sizes.experts(COLOUR, 4, 10, 5),
        "profile": lambda: sizes.profile(5, images=8),
        "data": lambda: sizes.data(DIGITS, 16, 5),
        "data_full": lambda: sizes.full_data(DIGITS, 128, 5),
        "shares": lambda: steps.shares(params(DIGITS), device, *of(50, 3)),
        "own_loop": lambda: steps.own_loop(params(DIGITS), device, *of(20, 7)),
        "gradient_surgery": lambda: steps.gradient_surgery(sizes.eager(PATCHES, 128), device, *of(2, 7)),
        "checkpoint": lambda: steps.checkpoints(params(DIGITS), device, *of(20, 15)),
        "overhead": lambda: overhead.measure(*of(5)),
    }


def on_gpu(sizes: Sizes) -> dict[str, Benchmark]:
    """Benchmarks on a GPU at the presets' batches, compiled too; what matters most comes first."""
    return {
        "training_cifar10": lambda: sizes.train(DDPM, None, 10, 5, "", training.COMPILED, training.GRAPHS),
        "training_dit_b": lambda: sizes.transformer(DDPM, 256, 5, 5, depth=12, width=768, heads=12, channels=4),
        "pipeline_cifar10": lambda: sizes.pipelines(DDPM, 20, 256, 3),
        "scoring": lambda: sizes.scoring(2048, 50_000, 2048, 1000, 1),
        "shares": lambda: steps.shares(sizes.compiled(DDPM), sizes.device, *sizes.of(50, 3)),
        "checkpoint": lambda: steps.checkpoints(sizes.compiled(DDPM), sizes.device, *sizes.of(20, 5)),
        "experts_cifar10": lambda: sizes.experts(IDDPM, 128, 20, 3),
        "profile": lambda: sizes.profile(5, images=None),
        "data": lambda: sizes.data(DDPM, None, 20),
        "data_full": lambda: sizes.full_data(DDPM, None, 20),
        "gradient_surgery": lambda: steps.gradient_surgery(sizes.eager(PATCHES), sizes.device, *sizes.of(20, 5)),
    }


@click.command(help=__doc__)
@click.option("--gpu", is_flag=True, help="the benchmarks of a GPU")
@click.option("--trial", is_flag=True, help="in the smallest sizes, also on a CPU; no figures are written")
@click.option("--only", multiple=True, help="names of benchmarks; default: all")
@click.option("--table", "only_table", is_flag=True, help="show the recorded figures, and measure nothing")
def main(gpu: bool, trial: bool, only: tuple[str, ...], only_table: bool) -> None:
    """Measure, and write the figures."""
    if only_table:
        click.echo(table("cuda" if gpu else "cpu"))
        return
    if gpu and not trial and not torch.cuda.is_available():
        raise click.ClickException("--gpu: PyTorch finds no CUDA device; allowed: --gpu --trial")
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    if not gpu:  # one thread, here and in programs that are started: as much time as on a machine of one's own
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
    known = (on_gpu if gpu else on_cpu)(Sizes(device, trial))
    if unknown := set(only) - known.keys():
        raise click.ClickException(f"--only {min(unknown)}: no such benchmark; allowed: {', '.join(known)}")
    for name in only or known:
        start = time.perf_counter()
        figures = known[name]()
        done = shown(name, figures) if trial else keep(name, figures, device)
        click.echo(f"{name}: {time.perf_counter() - start:.0f} s: {done}")
    if not trial:
        click.echo(table(device.type))


if __name__ == "__main__":
    main()
