"""GPUs of one machine, lent to the stages that run on it side by side.

Snakemake names the machine's GPUs to its jobs. DVC names none, so a stage that it starts finds them itself. A stage
takes as many as it has processes, by a lock on each, and sees no others. Where several stages share a GPU, it has as
many locks. The system frees the locks of a process however it ends.
"""

import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unequal.errors import UserError
from unequal.pipeline.attempt import DVC_STAGE, SNAKEMAKE
from unequal.settings.strict import read_yaml
from unequal.settings.training import Runtime

#: Environment variable with the GPUs that are lent, separated by commas; each as often as stages may share it.
LENT = "UNEQUAL_GPUS"
VISIBLE = "CUDA_VISIBLE_DEVICES"
#: Longest wait between two attempts to get all GPUs at once.
WAIT_SECONDS = 2.0


def machine_gpus() -> list[str]:
    """Name the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; empty where there are none."""
    if (visible := os.environ.get(VISIBLE)) is not None:
        return [name for name in visible.split(",") if name]
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []


def gpus_of_stage(runtime: Runtime) -> list[str]:
    """Name the GPUs that are lent to this stage, each as often as stages may share it.

    DVC lends all of the machine to stages whose `meta` asks for one, unless CUDA_VISIBLE_DEVICES says which to use.
    """
    if LENT in os.environ:
        return [name for name in os.environ[LENT].split(",") if name]
    if DVC_STAGE not in os.environ or SNAKEMAKE in os.environ or VISIBLE in os.environ or runtime.device == "cpu":
        return []
    return machine_gpus() * runtime.stages_per_gpu if "gpu" in stage_meta(os.environ[DVC_STAGE]) else []


def stage_meta(stage: str) -> dict[str, Any]:
    """Read the `meta` of a stage that DVC names as `graph:stage@instance`, with the graph seen from where DVC runs."""
    place, _, instance = stage.rpartition(":")
    graph = Path(place) if place and Path(place).exists() else Path("dvc.yaml")
    stages = read_yaml(graph)["stages"] if graph.exists() else {}
    template = stages.get(instance.partition("@")[0], {})
    return template.get("do", template).get("meta", {})


def lease(names: list[str], count: int | None) -> list[FileLock]:
    """Wait for lent GPUs, and make them the only visible ones.

    Args:
        names: of the lent GPUs, each as often as stages may share it.
        count: GPUs, one a process of the stage; None: all that are free, at least one.

    Returns:
        Locks that hold the GPUs as long as they live; none where no GPUs are lent.

    Raises:
        UserError: more than are lent.
    """
    if not names:
        return []
    least, most = count or 1, count or len(names)
    if least > (gpus := len({*names})):
        raise UserError(f"params.yaml: runtime.processes: {count}: one a GPU; allowed here: 1 … {gpus}")
    while len(locks := free_locks(names, most)) < least:
        # All or none: two stages that wait for each other's would wait for ever.
        for lock in locks.values():
            lock.release()
        time.sleep(random.uniform(0.1, 1) * WAIT_SECONDS)
    os.environ[VISIBLE] = ",".join(locks)
    return list(locks.values())


def free_locks(names: list[str], count: int) -> dict[str, FileLock]:
    """Lock free GPUs, at most so many, each once: name → lock."""
    folder = Path(tempfile.gettempdir()) / f"unequal-gpus-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    locks: dict[str, FileLock] = {}
    places: Counter[str] = Counter()
    for name in names:
        places[name] += 1
        if len(locks) == count or name in locks:
            continue
        lock = FileLock(folder / f"{name}.{places[name]}.lock", is_singleton=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        locks[name] = lock
    return locks
