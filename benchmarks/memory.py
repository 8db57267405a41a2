"""Peak memory of stages, measured, beside what `unequal.tools.footprint` says of them.

    python -m benchmarks.memory                            # the colour patches' network of 7 M parameters
    python -m benchmarks.memory presets/own-images-32.yaml

A copy of the repository runs the stages of a preset with its network and its batches, but few of them, on a CPU. The
peak is the resident memory of the process (`ru_maxrss`), which counts pages of mapped files too.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import torch

from benchmarks.projects import TINY, copy_of_repository, edit, environment_of, shrink
from benchmarks.starting import NOBODY
from benchmarks.timing import keep
from unequal.settings.params.pipeline import Params
from unequal.settings.strict import PARAMS
from unequal.tools.footprint import Footprints

#: In the order of the graph. What trains on takes what the base took; pruning takes minutes.
CHAIN = (
    "prepare_data",
    "build_extractor",
    "evaluate_reference",
    "profile_floor",
    "train_base",
    "train_mixed",
    "profile_loss --model base",
    "evaluate_fid --variant base",
)
STEPS = 2
#: A small process between us and the stage: a program's peak begins with the size of the process that has started it.
BETWEEN = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def project_of(target: Path, preset: Path) -> Path:
    """A copy of the repository in which a preset's stages run for a batch or two each."""
    project = copy_of_repository(target)
    (project / PARAMS).write_bytes(preset.read_bytes())
    shrink(project / PARAMS, TINY)
    params = Params.read(project / PARAMS)
    trained = {f"recipes.{name}.images": STEPS * params.training.batch_size for name in params.recipes}
    changes: dict[str, object] = {
        "runtime.device": "cpu",
        "runtime.compile": False,
        "schedule.timesteps": -(-params.profile.batch_size // params.profile.images),
        "sampling.steps": STEPS,
        "evaluation.samples": max(params.sampling.batch_size, params.extractor.features),
    }
    edit(project, trained | changes)
    return project


def peak_of(project: Path, command: str) -> int:
    """Bytes of resident memory that a stage took at its peak, in a process of its own."""
    words = [sys.executable, "-m", f"stages.{command.split()[0]}", *command.split()[1:]]
    with (project / "last.log").open("wb") as log:
        done = subprocess.run(
            [sys.executable, "-S", "-c", BETWEEN, *words],
            cwd=project,
            env=environment_of(project) | {"MLFLOW_TRACKING_URI": NOBODY},
            stdout=subprocess.PIPE,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise RuntimeError((project / "last.log").read_text()[-2000:])
    return int(done.stdout) * 1024


def measure(preset: Path) -> dict[str, Any]:
    """Gigabytes of each stage, measured and estimated, and the smallest ratio of the two."""
    with tempfile.TemporaryDirectory() as folder:
        project = project_of(Path(folder), preset)
        measured = {command.split()[0]: peak_of(project, command) for command in CHAIN}
        footprints = Footprints.read(project)
    said = {stage: footprints.of(stage).host_bytes(has_gpu=False) for stage in measured}
    return {
        "measured_gb": {stage: round(peak / 1e9, 3) for stage, peak in measured.items()},
        "estimated_gb": {stage: round(size / 1e9, 3) for stage, size in said.items()},
        "smallest_ratio": min(said[stage] / peak for stage, peak in measured.items()),
        "largest_ratio": max(said[stage] / peak for stage, peak in measured.items()),
    }


@click.command()
@click.argument("preset", type=click.Path(path_type=Path), default=Path("presets/patches-large.yaml"))
@click.option("--name", help="keep the figures under this name in results/benchmarks")
def main(preset: Path, name: str | None) -> None:
    """Measure the stages of PRESET."""
    result = measure(preset)
    click.echo(json.dumps(result, indent=2))
    if name is not None:
        keep(name, result, torch.device("cpu"))


if __name__ == "__main__":
    main()
