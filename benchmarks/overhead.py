"""Costs of the pipeline itself: engines with nothing to do, and the start of a stage.

`measure` copies the project's graph into a temporary folder and puts small files in the place of all outputs, which
DVC records, so that `dvc repro` and `snakemake -n` find nothing to do. A start is everything
until a training asks for its first batch; next to it stand the imports of the libraries that it needs.
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
from dvc.repo import Repo

from benchmarks.timing import in_turns, ratio

ROOT = Path(__file__).parents[1]
#: Files and folders of the graph.
COPIED = ("stages", "unequal", "dvc.yaml", "params.yaml", "params.schema.json", "Snakefile", ".dvcignore", "profiles")
#: Libraries that a stage which trains cannot do without.
LIBRARIES = (
    "torch, numpy, pydantic, yaml, click, filelock, tqdm, safetensors.torch, accelerate, diffusers.models.unets.unet_2d"
)
STAGE = "train_base"
PYTHON = (sys.executable, "-W", "ignore", "-c")
#: Describes all stages in dvc.lock as they are, as engines do when stages have finished.
RECORD = """
from pathlib import Path
from unequal.pipeline.recording import stages_of, write_lock
write_lock(Path("dvc.yaml"), stages_of(Path("dvc.yaml")))
"""
START = f"""
import os, stages.{STAGE} as program
from unequal.training.batches import BatchSource
BatchSource.draw = lambda *_: os._exit(0)
program.main([])
"""


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command in a folder; its output. Raises CalledProcessError."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    environment["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
    done = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout + done.stderr


def finish_project(folder: Path) -> None:
    """Copy the project's graph and code into a folder, as if all its stages had run; images are prepared."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    run(["dvc", "init", "--no-scm", "--quiet"], folder)
    run(["dvc", "config", "core.analytics", "false"], folder)
    for module in ("unequal.pipeline.fingerprint", "stages.check_params", "stages.prepare_data"):
        run([sys.executable, "-m", module], folder)
    with Repo(str(folder)) as repo:
        listed = [Path(one.fs_path) for stage in repo.index.stages for one in [*stage.deps, *stage.outs]]
    for path in listed:
        if not path.exists():  # an input may lie in an output's folder
            file = path if path.suffix else path / "content"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(str(path))
    run([*PYTHON, RECORD], folder)
    run(["snakemake", "--cores", "1", "--touch", "--quiet"], folder)


def measure(rounds: int) -> dict[str, Any]:
    """Processor seconds of everything, and a stage's start over bare imports."""
    commands = {
        "dvc repro": ["dvc", "repro"],
        "snakemake -n": ["snakemake", "--cores", "1", "-n", "--quiet"],
        "unequal check": [sys.executable, "-m", "unequal", "check"],
        "start of a stage": [*PYTHON, START],
        "bare imports": [*PYTHON, f"import os, {LIBRARIES}; os._exit(0)"],
    }
    with tempfile.TemporaryDirectory() as temporary:
        finish_project(folder := Path(temporary))
        # The stage of fingerprints always runs.
        if run(commands["dvc repro"], folder).count("Running stage") > 1:
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
