"""Costs of the pipeline itself: engines with nothing to do, the start of a stage, and the first run in a clone.

`measure` copies the project's graph into a temporary folder and puts small files in the place of all outputs, which DVC
records, so that `dvc repro` and `snakemake -n` find nothing to do. A stage's start is everything until its own function
is called; next to it stand the imports of the libraries that it needs. `first_run` clones the last commit into a
temporary folder, carries README's first command out in it, and divides the time between the set-up, the engine, the
start of the stages' processes, their work and their ends. Where several stages run, each has an equal part of the time;
the engine has what is left.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
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


#: README's first one.
COMMAND = ("snakemake", "--cores", "all")
#: The parts of a stage's process, and the moments between them.
PARTS = ("stages' starts", "stages' work", "stages' ends")
MOMENTS = ("begun", "started", "ended", "gone")
#: Read by every Python that finds its folder on its path: notes when a stage's process, and its own function, begin
#: and end.
HOOK = """
import atexit, json, os, sys, time

times = {"begun": time.time()}
if any(word.startswith("stages.") for word in sys.orig_argv):
    from unequal.pipeline import stage

    construct = stage.StageCommand.__init__

    def constructed(command, function, *arguments, **named):
        construct(command, function, *arguments, **named)

        def timed(*arguments, **options):
            times["started"] = time.time()
            try:
                return function(*arguments, **options)
            finally:
                times["ended"] = time.time()

        command.function = timed

    stage.StageCommand.__init__ = constructed

    @atexit.register
    def note():
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps(times | {"gone": time.time()}) + "\\n")
"""


def timed_run(folder: Path, environment: Mapping[str, str], *command: str) -> float:
    """Seconds of a command. Raises CalledProcessError."""
    begun = time.perf_counter()
    subprocess.run(command, cwd=folder, env=os.environ | dict(environment), check=True)
    return time.perf_counter() - begun


def first_run() -> dict[str, Any]:
    """Return the seconds of each part of the first run in a clone."""
    own = {"PYTHONPATH": ""}  # which could lead to another copy of the code
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
        set_up = timed_run(folder, own, "uv", "sync", "--quiet")
        (Path(place) / "sitecustomize.py").write_text(HOOK)
        notes = Path(place) / "notes"
        noting = {"NOTES": str(notes), "PYTHONPATH": place}
        whole = timed_run(folder, own | noting, "uv", "run", *COMMAND)
        processes = [json.loads(line) for line in notes.read_text().splitlines()]
    return {"seconds": shared_out(set_up, whole, processes), "stages": len(processes), "cores": os.cpu_count()}


def shared_out(set_up: float, whole: float, processes: list[dict[str, float]]) -> dict[str, float]:
    """The parts of a run, given the moments of each stage's process."""
    spans = [
        (part, one[begin], one[end])
        for one in processes
        for part, (begin, end) in zip(PARTS, pairwise(MOMENTS), strict=True)
    ]
    parts = Counter(dict.fromkeys(PARTS, 0.0))
    for begin, end in pairwise(sorted({moment for _, *span in spans for moment in span})):
        at_work = [part for part, first, last in spans if first <= begin and end <= last]
        for part in at_work:
            parts[part] += (end - begin) / len(at_work)
    return {"set-up": set_up, "engine": whole - parts.total(), **parts, "all": set_up + whole}
