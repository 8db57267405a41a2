"""The pipeline with larger budgets, from end to end: `python -m benchmarks.larger`, on a machine with a GPU.

Each preset becomes the params.yaml of a copy of the project, where `dvc repro` runs; its results are taken over
into `results/<preset>`. The copies are kept below `artifacts`, so that a run which was stopped goes on.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import torch

from benchmarks.overhead import ROOT, copied

PRESETS = ("digits-large", "patches-large")


def reproduce(preset: Path, folder: Path, results: Path) -> None:
    """Run the pipeline with a preset in a copy of the project, and take over its results.

    Raises CalledProcessError where a stage fails.
    """
    fresh = not folder.exists()
    copied(folder)
    shutil.copyfile(preset, folder / "params.yaml")
    if fresh:
        subprocess.run(["dvc", "init", "--no-scm", "--quiet"], cwd=folder, check=True)
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    subprocess.run(["dvc", "repro"], cwd=folder, check=True, env=environment)
    shutil.rmtree(results, ignore_errors=True)
    shutil.copytree(folder / "results", results)
    shutil.copyfile(preset, results / "params.yaml")
    shutil.copyfile(folder / "dvc.lock", results / "dvc.lock")


def reproduce_all(presets: Sequence[str] = PRESETS) -> None:
    """Run the pipeline with each preset; see `reproduce`."""
    for name in presets:
        reproduce(ROOT / f"presets/{name}.yaml", ROOT / f"artifacts/{name}", ROOT / f"results/{name}")


@click.command(help=__doc__)
@click.option("--preset", "presets", multiple=True, default=PRESETS, show_default=True)
@click.option("--on-cpu", is_flag=True, help="run without a GPU all the same")
def main(presets: tuple[str, ...], on_cpu: bool) -> None:
    """Run them."""
    if not (on_cpu or torch.cuda.is_available()):
        raise click.ClickException("PyTorch finds no CUDA device; --on-cpu runs all the same")
    reproduce_all(presets)


if __name__ == "__main__":
    main()
