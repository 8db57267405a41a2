"""Trainings that share one GPU: what `runtime.stages_per_gpu` brings, with and without NVIDIA's Multi-Process Service.

Each training is a process of its own, as a stage is. All wait until the last one is warm, and then take as many steps.
"""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import seconds
from benchmarks.training import advance, our_loop
from unequal.settings.params import Params

#: Where a process looks for the service.
PIPE = "CUDA_MPS_PIPE_DIRECTORY"
CONTROL = "nvidia-cuda-mps-control"
WARM_UP = 20


@contextmanager
def service(folder: Path) -> Iterator[dict[str, str]]:
    """Run the service as long as it is needed, and give the environment of its clients."""
    environment = os.environ | {PIPE: str(folder), "CUDA_MPS_LOG_DIRECTORY": str(folder)}
    subprocess.run([CONTROL, "-d"], env=environment, check=True)
    try:
        yield environment
    finally:
        subprocess.run([CONTROL], input="quit\n", text=True, env=environment, check=True)


def together(count: int, program: Sequence[str], environment: dict[str, str]) -> float:
    """Seconds in which so many trainings take their steps side by side."""
    with ExitStack() as stack:
        trainings = [
            stack.enter_context(
                subprocess.Popen(
                    program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
                )
            )
            for _ in range(count)
        ]
        for one in trainings:
            stack.callback(one.kill)
        lines = [one.stdout for one in trainings if one.stdout]
        if [line.readline() for line in lines] != ["warm\n"] * count:
            raise RuntimeError("a training has failed")
        start = time.perf_counter()
        for one in trainings:
            if one.stdin:
                one.stdin.write("go\n")
        if [line.readline() for line in lines] != ["done\n"] * count:
            raise RuntimeError("a training has failed")
        return time.perf_counter() - start


def train(params: Params, device: torch.device, steps: int, warm_up: int) -> None:
    """Warm up, wait for a line, and take so many steps."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = our_loop(params, device, Path(folder))
        seconds(lambda: advance(trainer, warm_up), device)
        print("warm", flush=True)
        sys.stdin.readline()
        seconds(lambda: advance(trainer, steps), device)
        print("done", flush=True)


def measure(params: Params, device: torch.device, counts: Sequence[int], steps: int) -> dict[str, Any]:
    """Images a second of all trainings together, by their number: plain, and with the service where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "params"
        file.write_bytes(pickle.dumps(params))
        program = [sys.executable, "-m", "benchmarks.sharing", str(file), device.type, str(steps)]
        nowhere = os.environ | {PIPE: str(Path(folder) / "none")}
        found = {"plain": {str(count): together(count, program, nowhere) for count in counts}}
        if device.type == "cuda" and shutil.which(CONTROL):
            with service(Path(folder)) as clients:
                found["mps"] = {str(count): together(count, program, clients) for count in counts}
    images = steps * params.training.batch_size
    speeds = {way: {count: int(count) * images / taken for count, taken in one.items()} for way, one in found.items()}
    return {"images_per_second": speeds, "batch_size": params.training.batch_size, "training_steps": steps}


if __name__ == "__main__":
    path, kind, number = sys.argv[1:]
    torch.set_num_threads(1)
    settings = pickle.loads(Path(path).read_bytes())
    train(settings, torch.device(kind), int(number), min(WARM_UP, int(number)))
