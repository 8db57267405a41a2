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

from benchmarks import data, overhead, sampling, scoring, training
from benchmarks.table import table
from benchmarks.timing import record
from unequal.settings.params import Params

DIGITS, PATCHES, COLOUR, DDPM, IDDPM = (
    Path("presets") / f"{name}.yaml"
    for name in ("digits", "patches-large", "own-images-32", "cifar10-ddpm", "cifar10-iddpm")
)
Benchmark = Callable[[], Mapping[str, Any]]


@dataclass(frozen=True)
class Suite:
    """The benchmarks of a device; `trial`: in the smallest sizes, of the digits' network."""

    device: torch.device
    trial: bool = False

    def params(self, preset: Path, batch_size: int | None = None) -> Params:
        """Read a preset as all training loops can run it."""
        read = Params.read(DIGITS if self.trial else preset)
        return training.comparable(read, self.device, 4 if self.trial else batch_size)

    def sizes(self, *numbers: int) -> list[int]:
        """Return numbers of steps, rounds or images; in a trial 1 each."""
        return [min(number, 1) for number in numbers] if self.trial else list(numbers)

    def loops(self, params: Params, steps: int, rounds: int, *endings: str) -> Mapping[str, Any]:
        """Measure training loops; a trial on a CPU compiles nothing."""
        if not endings or (self.trial and self.device.type == "cpu"):
            endings = ("",)
        return training.measure(params, self.device, *self.sizes(steps, rounds), endings=endings)

    def dit(self, params: Params, steps: int, rounds: int, *endings: str, **network: int) -> Mapping[str, Any]:
        """Measure training loops around a transformer."""
        return self.loops(training.transformer(params, **({} if self.trial else network)), steps, rounds, *endings)

    def pipelines(self, preset: Path, steps: int, images: int, rounds: int) -> Mapping[str, Any]:
        """Measure sampling, by this library and by diffusers."""
        fast = self.device.type == "cuda"
        return sampling.pipelines(self.params(preset), self.device, *self.sizes(steps, images, rounds), fast=fast)

    def experts(self, preset: Path, images: int, steps: int, rounds: int) -> Mapping[str, Any]:
        """Measure sampling with untrained experts of a preset's sizes."""
        return sampling.experts(self.params(preset), self.device, *self.sizes(images, steps, rounds))

    def scoring(self, *sizes: int) -> Mapping[str, Any]:
        """Measure features and distances."""
        return scoring.measure(self.device, *((2, 40, 8, 4, 1) if self.trial else sizes))

    def data(self, preset: Path, batch_size: int | None, steps: int) -> Mapping[str, Any]:
        """Measure waits for images of 64 × 64 pixels on disk."""
        sizes = (40, 8, 2, 1) if self.trial else (100_000, 64, steps, 3)
        return data.measure(self.params(preset, batch_size), self.device, *sizes)

    @property
    def cpu(self) -> dict[str, Benchmark]:
        """Benchmarks that take minutes on a core or two."""
        params, sizes, compiled = self.params, self.sizes, training.COMPILED
        return {
            "training_digits": lambda: self.loops(params(DIGITS), 10, 7, "", compiled),
            "training_digits_32": lambda: self.loops(params(DIGITS, 32), 20, 7, "", compiled),
            "training_unet": lambda: self.loops(params(PATCHES, 32), 2, 7),
            "training_dit": lambda: self.dit(params(PATCHES, 32), 4, 7),
            "pipeline_digits": lambda: self.pipelines(DIGITS, 20, 128, 7),
            "pipeline_colour": lambda: self.pipelines(COLOUR, 5, 8, 5),
            "scoring": lambda: self.scoring(64, 4096, 256, 1000, 3),
            "experts_digits": lambda: self.experts(DIGITS, 64, 50, 5),
            "experts_colour": lambda: self.experts(COLOUR, 4, 10, 5),
            "data": lambda: self.data(DIGITS, 16, 5),
            "shares": lambda: training.shares(params(DIGITS), self.device, *sizes(50, 3)),
            "overhead": lambda: overhead.measure(*sizes(5)),
        }

    @property
    def gpu(self) -> dict[str, Benchmark]:
        """Benchmarks at the presets' batches, compiled too; what matters most comes first."""
        params, sizes, compiled = self.params, self.sizes, training.COMPILED
        dit_b = {"depth": 12, "width": 768, "heads": 12, "channels": 4}
        return {
            "training_cifar10": lambda: self.loops(params(DDPM), 10, 5, "", compiled, training.GRAPHS),
            "training_dit_b": lambda: self.dit(params(DDPM, 256), 5, 5, "", compiled, **dit_b),
            "pipeline_cifar10": lambda: self.pipelines(DDPM, 20, 256, 3),
            "scoring": lambda: self.scoring(2048, 50_000, 2048, 1000, 1),
            "shares": lambda: training.shares(params(DDPM), self.device, *sizes(50, 3)),
            "experts_cifar10": lambda: self.experts(IDDPM, 128, 20, 3),
            "data": lambda: self.data(DDPM, None, 20),
        }


@click.command(help=__doc__)
@click.option("--gpu", is_flag=True, help="the benchmarks of a GPU")
@click.option("--trial", is_flag=True, help="in the smallest sizes, also on a CPU; no figures are written")
@click.option("--only", multiple=True, help="names of benchmarks; default: all")
@click.option("--table", "only_table", is_flag=True, help="show the recorded figures, and measure nothing")
def main(gpu: bool, trial: bool, only: tuple[str, ...], only_table: bool) -> None:
    """Measure, and write the figures."""
    kind = "cuda" if gpu else "cpu"
    if only_table:
        click.echo(table(kind))
        return
    if gpu and not trial and not torch.cuda.is_available():
        raise click.ClickException("--gpu: PyTorch finds no CUDA device; allowed: --gpu --trial")
    device = torch.device("cuda" if gpu and torch.cuda.is_available() else "cpu")
    if not gpu:  # one thread, here and in programs that are started: as much time as on a machine of one's own
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)
    suite = Suite(device, trial)
    benchmarks = suite.gpu if gpu else suite.cpu
    if unknown := set(only) - benchmarks.keys():
        raise click.ClickException(f"--only {min(unknown)}: no such benchmark; allowed: {', '.join(benchmarks)}")
    for name in only or benchmarks:
        start = time.perf_counter()
        figures = benchmarks[name]()
        if not trial:
            record(name, figures, device)
        click.echo(f"{name}: {time.perf_counter() - start:.0f} s")
    if not trial:
        click.echo(table(kind))


if __name__ == "__main__":
    main()
