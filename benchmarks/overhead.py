"""Costs of the pipeline itself: engines with nothing to do, and the start of a stage.

Run it where the pipeline has finished. A start is everything until a training
asks for its first batch; next to it stand the imports of the libraries that it needs.
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.timing import in_turns, ratio
from unequal.errors import UserError

LIBRARIES = (
    "torch, numpy, pydantic, yaml, click, filelock, tqdm, safetensors.torch, accelerate, diffusers.models.unets.unet_2d"
)
START = """
import os, stages.train_base as program
from unequal.training.batches import BatchSource
BatchSource.draw = lambda *_: os._exit(0)
program.main([])
"""
PYTHON = [sys.executable, "-W", "ignore", "-c"]
COMMANDS = {
    "dvc repro": ["dvc", "repro"],
    "snakemake -n": ["snakemake", "--cores", "1", "-n", "--quiet"],
    "start of a stage": [*PYTHON, START],
    "bare imports": [*PYTHON, f"import os, {LIBRARIES}; os._exit(0)"],
}


def measure(rounds: int) -> dict[str, Any]:
    """Measure processor seconds of engines and starts, and a stage's start over bare imports."""
    if not Path("results/report.html").exists():
        raise UserError("results/report.html: missing; overhead is measured where the pipeline has finished")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db"}
        run = partial(subprocess.run, env=environment, check=True, capture_output=True)
        times = in_turns({name: partial(run, words) for name, words in COMMANDS.items()}, rounds, torch.device("cpu"))
    return {
        "seconds": {name: median(taken) for name, taken in times.items()},
        "start_over_imports": ratio(times["start of a stage"], times["bare imports"]),
        "rounds": rounds,
        "every_round": times,
    }
