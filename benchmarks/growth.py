"""Growth of time with sampling steps, timesteps, image size, groups, processes and stages side by side.

One thing is made larger at a time, the rest small. Where cost is in proportion, doubling doubles the time; with two
processes of a thread each, on two free cores, the same steps take half. Programs are timed by the clock on the wall.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.sampling import experts_of
from benchmarks.timing import in_turns, seconds
from benchmarks.training import advance, comparable, our_loop, random_images
from unequal.cli.architecture import Limits, spec_of
from unequal.diffusion.spacing import sampling_timesteps
from unequal.measures.profiling import Draws, profile
from unequal.models.backbones.backbone import build_network
from unequal.models.denoiser import Denoiser
from unequal.pipeline.program import launch
from unequal.settings.params import Params
from unequal.timesteps.partition import TimestepRange

IMAGES = 32
Work = Callable[[], object]


def of_steps(params: Params, device: torch.device) -> dict[str, Work]:
    """Sampling with more and more steps."""
    return {str(steps): sampling(params, device, 1, steps) for steps in (10, 20, 40)}


def sampling(params: Params, device: torch.device, groups: int, steps: int) -> Work:
    """A batch of samples by so many experts."""
    chosen = params.groups.model_copy(update={"ids": list(range(groups))})
    last = params.schedule.timesteps - 1
    limits = Limits.of(params.schedule, chosen).groups if groups > 1 else []
    ranges = [one.range for one in limits] or [TimestepRange(0, last)]
    net = build_network(params.network, spec_of(params))
    experts = experts_of([deepcopy(net) for _ in ranges], ranges, params, device)
    timesteps = sampling_timesteps(steps, params.schedule.timesteps, params.sampling.spacing)
    return partial(experts.sample, IMAGES, timesteps)


def of_timesteps(params: Params, device: torch.device) -> dict[str, Work]:
    """Profiles of more and more timesteps, four draws at each."""
    net = build_network(params.network, spec_of(params))
    net.to(device)

    def profiling(timesteps: int) -> Work:
        schedule = params.schedule.model_copy(update={"timesteps": timesteps})
        spec = spec_of(params.model_copy(update={"schedule": schedule}))
        draws = Draws.of(random_images(params), timesteps, 4, params.seed, device)
        return partial(profile, Denoiser(net, spec), draws, 128)

    return {str(timesteps): profiling(timesteps) for timesteps in (100, 200, 400)}


def of_image_size(params: Params, device: torch.device, work: Path) -> dict[str, Work]:
    """A training step on larger and larger images."""

    def step(size: int) -> Work:
        data = params.data.model_copy(update={"image_size": size})
        return our_loop(params.model_copy(update={"data": data}), device, work / str(size)).advance

    return {str(size): step(size) for size in (8, 16, 32)}


def of_processes(params_file: Path, steps: int) -> dict[str, Work]:
    """Training steps shared by more and more processes, their start included."""
    program = [sys.executable, "-m", "benchmarks.growth", str(params_file), str(steps)]
    return {str(count): partial(launch, count, program) for count in (1, 2)}


def of_stages(params_file: Path, steps: int) -> dict[str, Work]:
    """Trainings side by side, one thread each."""
    program = [sys.executable, "-m", "benchmarks.growth", str(params_file), str(steps)]

    def side_by_side(count: int) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        running = [subprocess.Popen(program, env=environment) for _ in range(count)]
        if any(process.wait() for process in running):
            raise RuntimeError("a training has failed")

    return {str(count): partial(side_by_side, count) for count in (1, 2, 4)}


def train(params: Params, steps: int) -> None:
    """So many training steps, alone or as one of several processes."""
    with tempfile.TemporaryDirectory() as folder:
        advance(our_loop(params, torch.device("cpu"), Path(folder)), steps)


def times_of(work: Mapping[str, Work], rounds: int, device: torch.device) -> dict[str, float]:
    """Median seconds of each."""
    return {name: median(taken) for name, taken in in_turns(work, rounds, device).items()}


def wall_times_of(work: Mapping[str, Work], rounds: int, device: torch.device) -> dict[str, float]:
    """Median seconds of programs, by the clock on the wall: how long several take together."""
    times = in_turns(work, rounds, device, warm_up=False, clock=seconds)
    return {name: median(taken) for name, taken in times.items()}


def measure(params_file: Path, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Seconds by size of everything that can grow."""
    params = comparable(Params.read(params_file), device, None)
    groups = {str(count): sampling(params, device, count, 20) for count in (1, 4, 16)}
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "sampling steps": times_of(of_steps(params, device), rounds, device),
            "groups": times_of(groups, rounds, device),
            "timesteps": times_of(of_timesteps(params, device), rounds, device),
            "image size": times_of(of_image_size(params, device, Path(folder)), rounds, device),
        }
    start = wall_times_of(of_processes(params_file, 1), rounds, device)
    whole = wall_times_of(of_processes(params_file, steps), rounds, device)
    found["processes"] = {count: whole[count] - start[count] for count in whole}
    found["start of processes"] = start
    found["stages side by side"] = wall_times_of(of_stages(params_file, steps), rounds, device)
    return {"seconds": found, "training_steps": steps, "rounds": rounds, "cores": os.cpu_count()}


if __name__ == "__main__":
    file, number = sys.argv[1:]
    train(comparable(Params.read(Path(file)), torch.device("cpu"), None), int(number))
