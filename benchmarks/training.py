"""Training speed of this project's loop next to others, in one run.

All loops get the same network, batch and precision, and train in turns: this project's; the one that diffusers'
documentation teaches, which reads PNGs as a data set of files does, or images decoded beforehand; a minimal one; one as
EDM trains. `passes` are the network's forward and backward passes alone, which no loop around the same network can
beat. Each is run as it is and compiled; on a GPU also replayed from CUDA graphs. Operations of a step
over a GPU's peak give the model FLOPs utilisation.
"""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from accelerate.state import AcceleratorState
from torch import nn

from benchmarks.documented_loop import DocumentedLoop, Pictures
from benchmarks.other_loops import EDMLoop, Loop, MinimalLoop, Passes
from benchmarks.timing import in_turns
from unequal.cli.architecture import network_of, spec_of
from unequal.cli.estimate import on_device
from unequal.runtime.devices import memory_format
from unequal.settings.network import DiT
from unequal.settings.params import Params
from unequal.settings.recipe import Recipe
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.accelerator import flops_per_image, peak_flops
from unequal.training.batches import BatchSource
from unequal.training.loop import Trainer
from unequal.training.train import single_head, surgery_of

#: Images that batches are taken from: more only take up memory.
IMAGES = 1000
#: Steps of the schedule of the learning rate; neither loop comes to its end.
STEPS = 100_000
#: Ending of the names of compiled contestants.
COMPILED = "_compiled"
#: Ending of the names of contestants whose launches are replayed from CUDA graphs.
GRAPHS = "_graphs"
OTHERS: dict[str, type[Loop]] = {"minimal": MinimalLoop, "edm": EDMLoop, "passes": Passes}


def comparable(params: Params, device: torch.device, batch_size: int | None) -> Params:
    """A params file with what both loops can do: one loss, a clipped gradient, fp32 on a CPU."""
    on_cpu, params = device.type == "cpu", on_device(params, device)
    training = params.training.model_copy(
        update={"gradient_accumulation": 1, "gradient_clip": 1.0}
        | ({"batch_size": batch_size} if batch_size else {})
        | ({"precision": "fp32"} if on_cpu else {})
    )
    network = params.network.model_copy(update={"variance": "fixed"})
    runtime = params.runtime.model_copy(update={"compile": False} if on_cpu else {})
    return params.model_copy(update={"training": training, "network": network, "runtime": runtime})


def source_of(params: Params, device: torch.device) -> BatchSource:
    """Random images on the device, as small sets of images are for a training; random timesteps."""
    training, sampler = params.training, TimestepSampler(uniform(params.schedule.timesteps))
    images = random_images(params).to(device)
    return BatchSource(images, training.batch_size, sampler, params.seed, training.horizontal_flips, device)


def our_loop(
    params: Params, device: torch.device, work: Path, source: BatchSource | None = None, recipe: Recipe | None = None
) -> Trainer:
    """This project's loop, by the base's recipe or another, on random images or others."""
    AcceleratorState._reset_state(reset_partial_state=True)
    training, spec = params.training, spec_of(params)
    chosen, batches = recipe or params.recipes["base"], source or source_of(params, device)
    return Trainer(
        network_of(params),
        batches,
        single_head(chosen, spec, device, batches.sampler),
        optimizer=chosen.optimizer,
        training=training,
        runtime=params.runtime,
        images=STEPS * training.batch_size,
        work=work,
        log=lambda figures, step: None,
        surgery=surgery_of(chosen, spec),
    )


def random_images(params: Params) -> torch.Tensor:
    """uint8 [IMAGES, C, H, W] of no meaning: time does not depend on them."""
    generator = torch.Generator().manual_seed(params.seed)
    shape = (IMAGES, params.data.channels, params.data.image_size, params.data.image_size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def documented(params: Params, device: torch.device, encoded: bool, compiled: bool = False) -> DocumentedLoop:
    """The documented loop on the same images."""
    images = random_images(params).permute(0, 2, 3, 1).numpy()
    pictures = Pictures(images, params.training.horizontal_flips, encoded)
    return DocumentedLoop(network(params, device), pictures, params, STEPS, device, compiled)


def advance(trainer: Trainer, steps: int) -> None:
    """Train on for so many steps."""
    for _ in range(steps):
        trainer.advance()


def with_compiler(params: Params, compiled: bool = True, graphs: bool = True) -> Params:
    """Settings with or without `runtime.compile` and CUDA graphs, which change results by rounding alone."""
    chosen = {"compile": compiled, "cuda_graphs": graphs}
    return params.model_copy(update={"runtime": params.runtime.model_copy(update=chosen)})


def network(params: Params, device: torch.device) -> nn.Module:
    """A fresh network in the layout of the settings."""
    return network_of(params).to(device).to(memory_format=memory_format(params.runtime))


#: Ending of a contestant's name → how its network is called.
WAYS: dict[str, bool | str] = {"": False, COMPILED: True, GRAPHS: "reduce-overhead"}


def contestants(
    params: Params, device: torch.device, steps: int, work: Path, ways: Sequence[str]
) -> dict[str, Callable[[], object]]:
    """Timed work: so many steps of each loop."""
    found: dict[str, Callable[[], object]] = {}
    for suffix in ways:
        compiled = WAYS[suffix]
        chosen = with_compiler(params, bool(compiled), graphs=suffix == GRAPHS)
        found[f"ours{suffix}"] = partial(advance, our_loop(chosen, device, work / f"ours{suffix}"), steps)
        for name, loop in OTHERS.items():
            if suffix == GRAPHS and loop is EDMLoop:
                continue  # it cleans gradients parameter by parameter, outside of the graphs
            other = loop(network(params, device), random_images(params), params.training, device, compiled)
            found[f"{name}{suffix}"] = partial(other.run, steps)
        if suffix != GRAPHS:
            decoded = documented(params, device, encoded=False, compiled=bool(compiled))
            found[f"documented_decoded{suffix}"] = partial(decoded.run, steps)
    if "" in ways:
        found["documented"] = partial(documented(params, device, encoded=True).run, steps)
    return found


def measure(
    params: Params, device: torch.device, steps: int, rounds: int, ways: Sequence[str] = ("",)
) -> dict[str, Any]:
    """Seconds of each loop in every round, its images a second, and the network's operations."""
    with tempfile.TemporaryDirectory() as folder:
        times = in_turns(contestants(params, device, steps, Path(folder), ways), rounds, device)
    batch, peak = params.training.batch_size, peak_flops(device)
    flops = flops_per_image(network_of(params)) * batch  # a multiply–accumulate is two
    speeds = {name: batch * steps / median(taken) for name, taken in times.items()}
    return {
        "images_per_second": speeds,
        "mfu": {} if peak is None else {name: speed * flops / batch / peak for name, speed in speeds.items()},
        "flops_per_step": flops,
        "seconds": times,
        "kind": params.network.kind,
        "image": [params.data.channels, params.data.image_size, params.data.image_size],
        "batch_size": batch,
        "steps": steps,
        "rounds": rounds,
        "precision": params.training.precision,
        "channels_last": params.runtime.channels_last,
    }


def transformer(params: Params, depth: int = 4, width: int = 96, heads: int = 4, channels: int = 0) -> Params:
    """Settings with a transformer on patches of 2, of images with other channels where any are given."""
    net = DiT(kind="dit", pretrained=None, depth=depth, width=width, heads=heads, patch=2)
    data = params.data.model_copy(update={"channels": channels} if channels else {})
    return params.model_copy(update={"network": net, "data": data})
