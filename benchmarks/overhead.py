"""Costs of the pipeline itself: engines with nothing to do, and the start of a stage.

`measure` copies the project's graph into a temporary folder and puts small files in the place of all outputs, which DVC
records, so that `dvc repro` and `snakemake -n` find nothing to do. A stage's start is everything until its own function
is called; next to it stand the imports of the libraries that it needs.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.timing import in_turns, ratio

ROOT = Path(__file__).parents[1]
#: What the graph is made of.
COPIED = ("stages", "unequal", "dvc.yaml", "params.yaml", "params.schema.json", "Snakefile", ".dvcignore", "profiles")
#: Libraries that a stage which trains cannot do without.
LIBRARIES = (
    "torch, numpy, pydantic, yaml, click, filelock, tqdm, safetensors.torch, accelerate, diffusers.models.unets.unet_2d"
)
STAGE = "train_base"
START = f"import os, stages.{STAGE} as program; program.main.function = lambda *_: os._exit(0); program.main([])"


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command in a folder; its output. Raises CalledProcessError."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db"}
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def copied(folder: Path) -> Path:
    """The project's graph and code in a folder; what is there already is brought up to date."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        if (ROOT / name).is_dir():
            unneeded = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=unneeded, dirs_exist_ok=True)
        else:
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def finished_project(folder: Path) -> Path:
    """The project in a folder, as if all its stages had run."""
    copied(folder)
    run(["dvc", "init", "--no-scm", "--quiet"], folder)
    run(["dvc", "config", "core.analytics", "false"], folder)
    for path in outputs(folder):
        file = path if path.suffix else path / "empty"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(str(path))
    run(["dvc", "commit", "--force", "--quiet"], folder)
    run(["snakemake", "--cores", "1", "--touch", "--quiet"], folder)
    return folder


def outputs(folder: Path) -> list[Path]:
    """Outputs of all stages of a project."""
    from dvc.repo import Repo

    with Repo(str(folder)) as repo:
        return [Path(out.fs_path) for stage in repo.index.stages for out in stage.outs]


def measure(rounds: int) -> dict[str, Any]:
    """Processor seconds of everything, and a stage's start over bare imports."""
    python = (sys.executable, "-W", "ignore", "-c")
    commands = {
        "dvc repro": ["dvc", "repro"],
        "snakemake -n": ["snakemake", "--cores", "1", "-n", "--quiet"],
        "start of a stage": [*python, START],
        "bare imports": [*python, f"import os, {LIBRARIES}; os._exit(0)"],
    }
    with tempfile.TemporaryDirectory() as temporary:
        folder = finished_project(Path(temporary))
        if "up to date" not in run(commands["dvc repro"], folder):
            raise RuntimeError("dvc repro has found something to do")
        work = {name: partial(run, command, folder) for name, command in commands.items()}
        times = in_turns(work, rounds, torch.device("cpu"))
    return {
        "seconds": {name: median(taken) for name, taken in times.items()},
        "start_over_imports": ratio(times["start of a stage"], times["bare imports"]),
        "stage": STAGE,
        "rounds": rounds,
        "every_round": times,
    }
