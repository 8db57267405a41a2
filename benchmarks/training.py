"""Training images a second, against the loop that diffusers' documentation teaches.

Both loops get the same network, batch, precision, clipping and flips, and train in turns. `documented` reads PNGs, as a
data set of files does; `documented_decoded` is the same loop with all images decoded beforehand. `passes` are the
network's forward and backward passes alone: no loop around the same network can take less. Model FLOPs utilisation is
the share of a device's measured matmul rate that a training uses; a step counts as three forward passes with attention.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from accelerate.state import AcceleratorState

from benchmarks.documented_loop import DocumentedLoop, Pictures
from benchmarks.documented_loop import Recipe as DocumentedRecipe
from benchmarks.timing import in_turns, ratio
from unequal.cli.architecture import spec_of
from unequal.cli.estimate import on_device
from unequal.models.backbones.backbone import build_network, count_cost, training_flops
from unequal.settings.network import DiT
from unequal.settings.params import Params
from unequal.settings.recipe import Recipe
from unequal.timesteps.samplers import TimestepSampler, uniform
from unequal.training.batches import BatchSource
from unequal.training.loop import Trainer, memory_format
from unequal.training.train import single_head, surgery_of

#: Images that batches are taken from: more only take up memory.
IMAGES = 1000
#: Steps of the schedule of the learning rate; neither loop comes to its end.
STEPS = 100_000


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
    images, on_gpu = random_images(params).to(device), device.type == "cuda"
    flips = training.horizontal_flips
    return BatchSource(images, training.batch_size, sampler, params.seed, flips, device, prefetch=on_gpu)


def our_loop(
    params: Params, device: torch.device, work: Path, source: BatchSource | None = None, recipe: Recipe | None = None
) -> Trainer:
    """This project's loop, by the base's recipe or another, on random images or others."""
    AcceleratorState._reset_state(reset_partial_state=True)
    training, spec = params.training, spec_of(params)
    chosen, batches = recipe or params.recipes["base"], source or source_of(params, device)
    return Trainer(
        build_network(params.network, spec),
        batches,
        single_head(chosen, spec, device, batches.sampler),
        optimizer=chosen.optimizer,
        training=training,
        runtime=params.runtime,
        images=STEPS * training.batch_size,
        work=work,
        log=lambda figures, step: None,
        surgery=surgery_of(chosen, spec, None),
    )


def random_images(params: Params) -> torch.Tensor:
    """uint8 [IMAGES, C, H, W] of no meaning: time does not depend on them."""
    generator = torch.Generator().manual_seed(params.seed)
    shape = (IMAGES, params.data.channels, params.data.image_size, params.data.image_size)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def documented(params: Params, device: torch.device, encoded: bool) -> DocumentedLoop:
    """The documented loop on the same images."""
    images = random_images(params).permute(0, 2, 3, 1).numpy()
    pictures = Pictures(images, params.training.horizontal_flips, encoded)
    recipe = DocumentedRecipe(params.training, params.recipes["base"].optimizer.lr, STEPS, params.schedule.timesteps)
    net = build_network(params.network, spec_of(params))
    return DocumentedLoop(net, pictures, recipe, device)


def advance(trainer: Trainer, steps: int) -> None:
    """Train on for so many steps."""
    for _ in range(steps):
        trainer.advance()


def passes(params: Params, device: torch.device) -> Callable[[int], None]:
    """The network forwards and backwards on one batch of noise, so many times, and nothing else."""
    net = build_network(params.network, spec_of(params))
    net.to(device).to(memory_format=memory_format(params.runtime)).train()
    called = torch.compile(net) if params.runtime.compile else net
    batch = random_images(params)[: params.training.batch_size].to(device) / 127.5 - 1
    timesteps = torch.randint(params.schedule.timesteps, (len(batch),), device=device)

    def run(steps: int) -> None:
        for _ in range(steps):
            with torch.autocast(device.type, torch.bfloat16, enabled=params.training.precision == "bf16"):
                loss = called(batch, timesteps).sample.float().square().mean()
            loss.backward()
            net.zero_grad()

    return run


def compiled(params: Params) -> Params:
    """Settings with `runtime.compile`, which changes results by rounding alone."""
    return params.model_copy(update={"runtime": params.runtime.model_copy(update={"compile": True})})


def contestants(
    params: Params, device: torch.device, steps: int, work: Path, also_compiled: bool = False
) -> dict[str, Callable[[], None]]:
    """Timed work: so many steps of each loop."""
    ours = {"ours": params} | ({"ours_compiled": compiled(params)} if also_compiled else {})
    return {name: partial(advance, our_loop(one, device, work / name), steps) for name, one in ours.items()} | {
        "documented": partial(documented(params, device, encoded=True).run, steps),
        "documented_decoded": partial(documented(params, device, encoded=False).run, steps),
        "passes": partial(passes(params, device), steps),
    }


def measure(
    params: Params, device: torch.device, steps: int, rounds: int, also_compiled: bool = False
) -> dict[str, Any]:
    """Images a second of each loop, and ours over theirs."""
    with tempfile.TemporaryDirectory() as folder:
        times = in_turns(contestants(params, device, steps, Path(folder), also_compiled), rounds, device)
    fast, ratios = times.get("ours_compiled"), {"ratio": ratio(times["documented"], times["ours"])}
    ratios |= {"ratio_decoded": ratio(times["documented_decoded"], times["ours"])}
    ratios |= {"ratio_of_passes": ratio(times["documented"], times["passes"])}
    ratios |= {} if fast is None else {"ratio_compiled": ratio(times["documented"], fast)}
    return ratios | timed(params, times, steps, rounds)


def timed(params: Params, times: Mapping[str, Sequence[float]], steps: int, rounds: int) -> dict[str, Any]:
    """The speed of each contestant, by its seconds in every round, and what was trained."""
    batch = params.training.batch_size
    return {
        "images_per_second": {name: batch * steps / median(found) for name, found in times.items()},
        "seconds": times,
        "kind": params.network.kind,
        "image": [params.data.channels, params.data.image_size, params.data.image_size],
    } | conditions(params, steps, rounds)


def conditions(params: Params, steps: int, rounds: int) -> dict[str, Any]:
    """Return what else a time depends on."""
    return {
        "batch_size": params.training.batch_size,
        "steps": steps,
        "rounds": rounds,
        "precision": params.training.precision,
        "compiled": params.runtime.compile,
        "channels_last": params.runtime.channels_last,
    }


def transformer(params: Params) -> Params:
    """Settings with a transformer of 96 channels and four blocks, on patches of 2."""
    small = DiT(kind="dit", pretrained=None, depth=4, width=96, heads=4, patch=2)
    return params.model_copy(update={"network": small})


def measure_beside_passes(params: Params, device: torch.device, steps: int, rounds: int) -> dict[str, Any]:
    """Time of our loop over that of the network's passes alone, for networks of any kind."""
    with tempfile.TemporaryDirectory() as folder:
        work: dict[str, Callable[[], object]] = {
            "ours": partial(advance, our_loop(params, device, Path(folder)), steps),
            "passes": partial(passes(params, device), steps),
        }
        times = in_turns(work, rounds, device)
    return {"time_over_passes": ratio(times["ours"], times["passes"])} | timed(params, times, steps, rounds)


def step_flops(params: Params) -> int:
    """Floating-point operations of a training step; a multiply–accumulate is two."""
    net = build_network(params.network, spec_of(params))
    return 2 * training_flops(count_cost(net).macs_with_attention, params.training.batch_size)


def utilisation(
    params: Params, device: torch.device, steps: int, rounds: int, side: int, products: int
) -> dict[str, Any]:
    """Operations a second of training and of products of square matrices, and their ratio."""
    dtype = torch.bfloat16 if params.training.precision == "bf16" else torch.float32
    left, right = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))

    def multiply() -> None:
        for _ in range(products):
            torch.mm(left, right)

    with tempfile.TemporaryDirectory() as folder:
        trainer = our_loop(params, device, Path(folder))
        times = in_turns({"training": lambda: advance(trainer, steps), "matmul": multiply}, rounds, device)
    flops = {"training": step_flops(params) * steps, "matmul": 2 * side**3 * products}
    speeds = {name: [flops[name] / one for one in taken] for name, taken in times.items()}
    return {
        "utilisation": ratio(speeds["training"], speeds["matmul"]),
        "flops_per_second": speeds,
        "flops_per_step": step_flops(params),
        "matrix": side,
    } | conditions(params, steps, rounds)
