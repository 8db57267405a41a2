"""Training speed of this project's loop next to others, and what the parts of its step take.

All loops get the same network, batch and precision, and train in turns. `passes` are the network's forward and backward
passes alone, which no loop around the same network can beat. Each runs as it is and compiled; on a GPU also replayed
from CUDA graphs. Operations of a step over a GPU's peak give the model FLOPs utilisation.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from accelerate.state import AcceleratorState
from torch import nn

from benchmarks.loops import STEPS, DocumentedLoop, Loop, MinimalLoop, Passes
from benchmarks.timing import Clock, effort, in_turns
from unequal.cli.architecture import network_of, spec_of
from unequal.models.denoiser import Denoiser
from unequal.runtime.devices import chosen_precision, memory_format
from unequal.settings.network import DiT
from unequal.settings.params import Params
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.accelerator import flops_per_image, peak_flops
from unequal.training.batches import BatchSource
from unequal.training.loop import Trainer
from unequal.training.train import single_head

#: Images that batches are taken from: more only take up memory.
IMAGES = 1000
#: Endings of the names of contestants whose network is compiled, or replayed from CUDA graphs.
COMPILED, GRAPHS = "_compiled", "_graphs"
#: Ending of a contestant's name → how its network is compiled.
COMPILERS: dict[str, bool | str] = {"": False, COMPILED: True, GRAPHS: "reduce-overhead"}
OTHERS: dict[str, type[Loop]] = {"minimal": MinimalLoop, "documented": DocumentedLoop, "passes": Passes}
#: Part of a step → its object, and the method that does it.
PARTS: dict[str, tuple[Callable[[Trainer], object], str]] = {
    "batch": (lambda trainer: BatchSource, "draw"),
    "average": (lambda trainer: trainer.averages, "update"),
    "optimizer": (lambda trainer: trainer.optimizer, "step"),
    "logging": (lambda trainer: trainer, "report"),
}


def comparable(params: Params, device: torch.device, batch_size: int | None = None) -> Params:
    """Return settings that all loops can run: one loss, a clipped gradient, no compiler, fp32 on a CPU."""
    training: dict[str, Any] = {"gradient_accumulation": 1, "gradient_clip": 1.0}
    training |= {"batch_size": batch_size} if batch_size else {}
    training["precision"] = "fp32" if device.type == "cpu" else chosen_precision(params.training.precision, device)
    return params.model_copy(
        update={
            "training": params.training.model_copy(update=training),
            "network": params.network.model_copy(update={"variance": "fixed"}),
            "runtime": params.runtime.model_copy(update={"compile": False}),
        }
    )


def transformer(params: Params, depth: int = 4, width: int = 96, heads: int = 4, channels: int = 0) -> Params:
    """Return settings with a transformer on patches of 2, and images of so many channels if any are given."""
    network = DiT(kind="dit", pretrained=None, depth=depth, width=width, heads=heads, patch=2)
    data = params.data.model_copy(update={"channels": channels} if channels else {})
    return params.model_copy(update={"network": network, "data": data})


def random_images(params: Params) -> torch.Tensor:
    """Draw uint8 [IMAGES, C, H, W] without meaning: time does not depend on them."""
    shape = (IMAGES, params.data.channels, params.data.image_size, params.data.image_size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def network(params: Params, device: torch.device) -> nn.Module:
    """Make a fresh network in the layout of the settings."""
    return network_of(params).to(device).to(memory_format=memory_format(params.runtime))


def our_loop(
    params: Params, device: torch.device, work: Path, source: BatchSource | None = None, compiler: bool | str = False
) -> Trainer:
    """Make this project's loop by the base's recipe, on random images or on others."""
    AcceleratorState._reset_state(reset_partial_state=True)
    training, recipe = params.training, params.recipes["base"]
    if source is None:
        sampler, images = TimestepSampler(uniform(params.schedule.timesteps)), random_images(params).to(device)
        source = BatchSource(images, training.batch_size, sampler, params.seed, training.horizontal_flips, device)
    compiling = {"compile": bool(compiler), "cuda_graphs": isinstance(compiler, str)}
    return Trainer(
        Denoiser.of(network_of(params), spec_of(params), device=device),
        source,
        single_head(recipe, spec_of(params), device, source.sampler),
        optimizer=recipe.optimizer,
        training=training,
        runtime=params.runtime.model_copy(update=compiling),
        images=STEPS * training.batch_size,
        work=work,
        log=lambda figures, step: None,
    )


def advance(trainer: Trainer, steps: int) -> None:
    """Train for so many more steps."""
    for _ in range(steps):
        trainer.advance()


def measure(
    params: Params, device: torch.device, steps: int, rounds: int, endings: Sequence[str] = ("",)
) -> dict[str, Any]:
    """Measure the seconds of each loop in every round, its images a second, and the network's operations."""
    work: dict[str, Callable[[], object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for ending in endings:
            ours = our_loop(params, device, Path(folder) / f"ours{ending}", compiler=COMPILERS[ending])
            work[f"ours{ending}"] = partial(advance, ours, steps)
            for name, loop in OTHERS.items():
                if ending == GRAPHS and loop is DocumentedLoop:
                    continue
                other = loop(network(params, device), random_images(params), params.training, device, COMPILERS[ending])
                work[f"{name}{ending}"] = partial(other.run, steps)
        times = in_turns(work, rounds, device)
    batch, peak = params.training.batch_size, peak_flops(device)
    flops = flops_per_image(network_of(params))
    speeds = {name: batch * steps / median(taken) for name, taken in times.items()}
    return {
        "images_per_second": speeds,
        "mfu": {} if peak is None else {name: speed * flops / peak for name, speed in speeds.items()},
        "flops_per_step": flops * batch,
        "seconds": times,
        "kind": params.network.kind,
        "image": [params.data.channels, params.data.image_size, params.data.image_size],
        "batch_size": batch,
        "steps": steps,
        "rounds": rounds,
        "precision": params.training.precision,
        "channels_last": params.runtime.channels_last,
    }


@contextmanager
def watched(owner: object, method: str, device: torch.device, clock: Clock = effort) -> Iterator[list[float]]:
    """Yield the seconds of every call of a method within the block."""
    taken: list[float] = []
    original = getattr(owner, method)

    def timed(*given: Any, **named: Any) -> Any:
        answer: list[Any] = []
        taken.append(clock(lambda: answer.append(original(*given, **named)), device))
        return answer[0]

    setattr(owner, method, timed)
    try:
        yield taken
    finally:
        setattr(owner, method, original)


def shares(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Measure the share of every part of a step, as the median over rounds."""
    taken: dict[str, list[float]] = {part: [] for part in PARTS}
    with tempfile.TemporaryDirectory() as folder:
        trainer = our_loop(params, device, Path(folder), compiler=device.type == "cuda")
        advance(trainer, 2)
        for _ in range(rounds):
            for part, (owner, method) in PARTS.items():
                with watched(owner(trainer), method, device) as calls:
                    whole = effort(partial(advance, trainer, steps), device)
                taken[part].append(sum(calls) / whole)
    conditions = {"steps": steps, "log_every": params.training.log_every, "batch_size": params.training.batch_size}
    return {"shares": {part: median(values) for part, values in taken.items()}, "rounds": taken} | conditions
