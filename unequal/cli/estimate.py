"""Cost of a params file in time, disk, memory and FLOPs, before anything runs.

FLOPs follow from the settings. Times follow from FLOPs by rates that are measured here and now:
a few training steps, a few forward passes, one start of a stage's imports.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from unequal.cli.architecture import limited_groups, network_of, spec_of
from unequal.cli.machine import busy, recommended_threads
from unequal.data.sources import load
from unequal.data.split import training_images
from unequal.errors import UserError, one_line, say
from unequal.models.backbones.backbone import backbone_of, build_outline, layer_macs, training_flops
from unequal.pipeline.params_files import read_params
from unequal.pipeline.program import QUOTED, out_of_memory
from unequal.report.formatting import duration, with_prefix
from unequal.runtime.devices import COMPILED_FROM, chosen_precision, is_compiled
from unequal.runtime.processes import threads
from unequal.sampling.guidance import PASSES
from unequal.settings.params import EXPERTS, ExpertParams, Sampled
from unequal.settings.pruning import Proxy, Pruning
from unequal.timesteps.groups import mean_limit
from unequal.training.pictures import COUNT, STEPS

AnySampled = TypeVar("AnySampled", bound=Sampled)
BYTES_PER_WEIGHT = 4
TIMED_PASSES = 3
#: Target number of multiply–accumulates of a timed pass, so that large networks are timed on few images.
TIMED_MACS = 1e10
#: Copies of the weights in a resumable state: weights, their average, and two moments.
STATES_A_CHECKPOINT = 4
NOTES = """\
On disk: {weights:.1f} MB of weights, in the workspace and in DVC's cache, and the data set as often; while a model
is trained, {state:.1f} MB of resumable state as well.
FLOPs are multiply–accumulates without attention's products; a training step counts three forward passes.
Times are measured without torch.compile, on a few images; those of training in the precision that is chosen."""
MIXED = "train_mixed is paper 1's network with three heads, for noise, velocity and image, whose answers are mixed."
#: Copies of the weights in training: weights, gradients, average, two moments, and the optimizer's temporary copy.
TRAINED_COPIES = 6
MEMORY = "Memory: a training takes about {}B in float32, plus 1 GB of libraries (3.5 GB with CUDA)."
#: The heaviest imports of a stage, and those of the Snakemake process that runs it.
IMPORTS, JOB = "import torch, diffusers, mlflow", "import dvc.repo, snakemake.cli"


@dataclass(frozen=True)
class Work:
    """Multiply–accumulates of one kind of stage: in training (3 × forward) and in forward passes alone."""

    name: str
    instances: int
    training: float = 0.0
    forward: float = 0.0
    weights: int = 0

    def seconds(self, measured: "Rates", precision: str, start: float) -> float:
        """Seconds of all instances, each of which takes `start` seconds to begin."""
        computing = self.training / measured.training[precision] + self.forward / measured.forward
        return computing + self.instances * start


def workload(params: ExpertParams, macs: int, parameters: int) -> list[Work]:
    """Work of each kind of stage. Mixed and pruned networks are counted as the base and its limits.

    Args:
        macs: multiply–accumulates of the base for one image, without attention's products.
        parameters: number of parameters of the base.
    """
    groups = limited_groups(params.schedule, params.groups)
    limits = [group.limit_ratio for group in groups]
    recipes = params.recipes

    def trained(name: str, recipe: str, shares: list[float], *, pruned: bool = False) -> Work:
        images = (recipes[recipe].for_pruned() if pruned else recipes[recipe]).images
        training = sum(training_flops(round(macs * share), images) for share in shares)
        drawn = (params.training.pictures or 0) * COUNT * STEPS * macs * sum(shares)
        return Work(name, len(shares), training, drawn, weights=round(parameters * sum(shares)))

    count = len(limits)

    def relative_cost(models: Sequence[str]) -> float:
        """Cost of models relative to the base: a timestep of pruned experts costs its group's limit."""
        return sum(mean_limit(groups) if model == EXPERTS[1] else 1 for model in models)

    profiled = relative_cost(params.profiled_models) * params.schedule.timesteps * 2 * params.profile.images
    calls = params.sampling.predictions * (1 if params.sampling.guidance is None else PASSES)
    sampled = relative_cost(params.variants) * params.evaluation.samples * len(params.evaluation.seeds) * calls
    return [
        Work("the others", 7 + len(params.finetune_recipes)),
        trained("train_base", "base", [1.0] if params.network.pretrained is None else []),
        *([trained("train_mixed", "mixed", [1.0])] if "mixed" in recipes else []),
        *(trained(f"train_recipe {recipe}", recipe, [1.0]) for recipe in params.finetune_recipes),
        *([trained("finetune_slots", "slot", [1.0] * len(params.slots.finetune))] if "slot" in recipes else []),
        pruned(params.pruning["expert"], [macs * limit for limit in limits]),
        trained("finetune_unpruned", "expert", [1.0] * count),
        trained("finetune_groups", "expert", limits, pruned=True),
        floor_work(params),
        Work("profile_loss", len(params.profiled_models), forward=profiled * macs),
        Work("evaluate_fid", len(params.variants), forward=sampled * macs),
    ]


def images_at_hand(params: ExpertParams) -> int | None:
    """Number of training images; None: the data are not available, or would be downloaded."""
    if params.data.source == "cifar10":
        return None
    try:
        return training_images(len(load(params.data).images), params.data.holdout)
    except UserError:
        return None


def floor_work(params: ExpertParams) -> Work:
    """Work of the optimal denoiser, which compares each draw with its images, if their number is known."""
    chosen, compared = params.profile, images_at_hand(params) or 0
    if chosen.floor != "all":
        compared = chosen.sampled or (chosen.floor if isinstance(chosen.floor, int) else 0)
    values = params.data.channels * params.data.image_size**2
    return Work("profile_floor", 1, forward=2.0 * params.schedule.timesteps * chosen.images * compared * values)


def passes_line(params: ExpertParams) -> str:
    """Line that says how often the base sees each image, if the data are available."""
    if (count := images_at_hand(params)) is None:
        return "Images: the data are not at hand; costs are counted without them."
    return f"Images: {count:,} for training; the base sees each {params.recipes['base'].images / count:.3g} times."


def pruned(method: Pruning, macs: list[float]) -> Work:
    """Work of pruning to these costs: trials of a decision maker, and as many random ones of its control.

    The cost of a method's own gradients is negligible.
    """
    if not isinstance(method, Proxy):
        return Work("prune", len(macs))
    trials = method.trials * (1 if method.control is None else 2)
    tuned = method.finetuning.images if method.finetuning else 0
    training = sum(training_flops(round(one), trials * tuned) for one in macs)
    return Work("prune", len(macs), training, forward=trials * method.images * sum(macs))


def measured_rate(run: Callable[[], object], macs: float, device: torch.device) -> float:
    """Multiply–accumulates per second of a pass with `macs` multiply–accumulates."""
    for timed in (False, True):
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(TIMED_PASSES if timed else 1):
            run()
        if device.type == "cuda":
            torch.cuda.synchronize()
    return TIMED_PASSES * macs / (time.perf_counter() - start)


@dataclass(frozen=True)
class Rates:
    """Multiply–accumulates per second: of training in each measured way, and of forward passes alone."""

    training: Mapping[str, float]
    forward: float


def rates(params: Sampled, net: nn.Module, device: torch.device, every: bool = False, compiled: bool = False) -> Rates:
    """Measure with the batch sizes of the params file: training in the precision of the settings.

    Args:
        params: the settings, with the values that `auto` selects on the network's device.
        every: measure the other precision too, and on a CPU one thread per core.
        compiled: measure torch.compile too.
    """
    image_macs = layer_macs(net)

    def batch(count: int) -> tuple[torch.Tensor, ...]:
        image, *indices = (torch.cat([one] * count) for one in backbone_of(net).example_inputs(net))
        return torch.randn_like(image), *indices

    affordable = max(1, round(TIMED_MACS / image_macs))
    trained = batch(min(affordable, params.training.batch_size // params.training.gradient_accumulation))
    sampled = batch(min(affordable, params.sampling.batch_size))

    def step(forward: Callable[..., Any], precision: str) -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            answer = forward(*trained).sample
        answer.float().square().mean().backward()

    chosen, macs = params.training.precision, training_flops(image_macs, len(trained[0]))
    tried = ("fp32", "bf16") if every else (chosen,)
    ways: dict[str, Callable[[], object]] = {name: partial(step, net, name) for name in tried}
    if compiled:
        ways[f"{chosen}, compiled"] = partial(step, torch.compile(net), chosen)
    training = {name: measured_rate(run, macs, device) for name, run in ways.items()}
    if every and device.type == "cpu" and (cores := len(os.sched_getaffinity(0))) > params.runtime.threads:
        with threads(cores):
            training[f"{chosen}, {cores} threads"] = measured_rate(ways[chosen], macs, device)
    with torch.no_grad():
        return Rates(training, measured_rate(lambda: net(*sampled), image_macs * len(sampled[0]), device))


def comparison(measured: Rates, params: ExpertParams, device: torch.device) -> str:
    """Line with the speed of each way of training on this machine; the settings alone decide which one is used."""
    plain = measured.training["fp32"]
    ways = "; ".join(f"{name} {rate / plain:.2f} times" for name, rate in measured.training.items() if name != "fp32")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    count = params.runtime.threads
    on_threads = f" on {count} thread{'s'[: count > 1]}" if device.type == "cpu" else ""
    return (
        f"Precision: the settings train in {params.training.precision}{on_threads}. "
        f"Speed on {name} relative to fp32: {ways}."
    )


def processor() -> str:
    """Describe this machine's processor, PyTorch's vector instructions, and whether bf16 has its own units (AMX)."""
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # absent in earlier versions of PyTorch
    amx = {True: ", AMX", False: ", no AMX", None: ""}[known.get("amx_bf16")]
    return f"{known.get('cpu_name', 'the processor')} ({torch.backends.cpu.get_cpu_capability()}{amx})"


def start_seconds(imports: str = IMPORTS) -> float:
    """Measure the seconds of imports in a process of their own."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", imports], check=True)
    return time.perf_counter() - start


def print_table(works: list[Work], measured: Rates, precision: str, start: float) -> None:
    """Print one row per kind of stage, and the sum."""
    say(f"{'stage':24} {'instances':>9} {'FLOPs':>10} {'weights':>10} {'time':>9}")
    total_seconds, total_macs, total_bytes = 0.0, 0.0, 0
    for work in works:
        seconds = work.seconds(measured, precision, start)
        macs, size = work.training + work.forward, work.weights * BYTES_PER_WEIGHT
        say(f"{work.name:24} {work.instances:9} {macs:10.3g} {size / 1e6:7.1f} MB {duration(seconds):>9}")
        total_seconds, total_macs, total_bytes = total_seconds + seconds, total_macs + macs, total_bytes + size
    say(f"{'in all, one after another':34} {total_macs:10.3g} {total_bytes / 1e6:7.1f} MB {duration(total_seconds):>9}")
    largest = max(work.weights / max(1, work.instances) for work in works) * BYTES_PER_WEIGHT
    notes = NOTES.format(weights=2 * total_bytes / 1e6, state=STATES_A_CHECKPOINT * largest / 1e6)
    say(*notes.split("\n"), *([MIXED] if any(work.name == "train_mixed" for work in works) else []))


def parameters_lines(params: ExpertParams, net: nn.Module) -> str:
    """Line with the experts' parameters on disk and per step; pruned parameters are assumed to shrink as FLOPs do."""
    groups, one = limited_groups(params.schedule, params.groups), num_parameters(net)
    limits = [group.limit_ratio for group in groups]
    pruned, mean = with_prefix(sum(limits) * one), with_prefix(mean_limit(groups) * one)
    return (
        f"Parameters of {len(limits)} experts on disk (their sum) and a step (mean over timesteps, as paper 3 counts): "
        f"unpruned {with_prefix(len(limits) * one)} and {with_prefix(one)};\n"
        f"pruned, if parameters shrink as FLOPs do, {pruned} and {mean}."
    )


def training_memory(params: ExpertParams, net: nn.Module) -> float:
    """Peak bytes of a training: copies of the weights, and the tensors that autograd stores for one part of a batch."""
    *inputs, stored = *backbone_of(net).example_inputs(net), 0
    weights = {one.untyped_storage().data_ptr() for one in net.parameters()}

    def store(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal stored
        stored += 0 if tensor.untyped_storage().data_ptr() in weights else tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
        net(*inputs)
    part = -(-params.training.batch_size // params.training.gradient_accumulation)
    parameters = sum(one.nbytes for one in net.parameters())
    return TRAINED_COPIES * parameters + part * stored


def on_device(params: AnySampled, device: torch.device) -> AnySampled:
    """Settings with the values that `auto` selects on a device."""
    precision = chosen_precision(params.training.precision, device)
    compiled = is_compiled(params.runtime.compile, device, COMPILED_FROM)
    return params.model_copy(
        update={
            "training": params.training.model_copy(update={"precision": precision}),
            "runtime": params.runtime.model_copy(update={"compile": compiled}),
        }
    )


def measured_here(
    params: AnySampled, every: bool = False, compiled: bool = False
) -> tuple[AnySampled, nn.Module, Rates]:
    """Settings with what `auto` selects here, their network on its device, and its rates with their number of threads.

    Raises UserError where memory does not suffice.
    """
    net, device = network_of(params), device_of(params)
    params = on_device(params, device)
    try:
        with threads(params.runtime.threads):
            return params, net, rates(params, net.to(device), device, every, compiled)
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise UserError(
            f"out of memory ({one_line(error)[:QUOTED]}); lower training.batch_size or sampling.batch_size"
        ) from None


def device_of(params: Sampled) -> torch.device:
    """Device that stages select on this machine."""
    return torch.device("cuda" if torch.cuda.is_available() and params.runtime.device != "cpu" else "cpu")


def num_parameters(net: nn.Module) -> int:
    """Count a network's weights."""
    return sum(one.numel() for one in net.parameters())


def extent(params: ExpertParams) -> str:
    """Line on the resources that a params file's run needs on any machine. Raises UserError."""
    net = network_of(params)
    parameters = num_parameters(net)
    works = workload(params, layer_macs(build_outline(params.network, spec_of(params))), parameters)
    macs = sum(one.training + one.forward for one in works)
    return (
        f"{with_prefix(parameters)} parameters; the base sees {params.recipes['base'].images:,} images; "
        f"{with_prefix(macs)} FLOPs for all stages; {with_prefix(training_memory(params, net))}B for a training in fp32"
    )


def brief(params: ExpertParams) -> str:
    """Line on the time that a params file's run takes on this machine. Raises UserError."""
    params, net, measured = measured_here(params)
    works, start = workload(params, layer_macs(net), num_parameters(net)), start_seconds()
    seconds = sum(work.seconds(measured, params.training.precision, start) for work in works)
    base = next(work for work in works if work.name == "train_base")
    return (
        f"about {duration(seconds)} on this machine's {device_of(params).type}, one stage after another; "
        f"{duration(base.seconds(measured, params.training.precision, start))} of it for the base"
    )


def data_line(params: ExpertParams) -> str:
    """Line on the images: location, size and number."""
    data, count = params.data, images_at_hand(params)
    where = data.source if data.path is None else f"{data.source} {data.path}"
    kind = {1: "grey", 3: "RGB"}.get(data.channels, f"{data.channels} channels")
    shape = f"{data.image_size} × {data.image_size} pixels, {kind}"
    if count is None:
        return f"data: {where}, {shape}; not at hand"
    held_out = len(load(data).images) - count
    return f"data: {where}, {shape}; {count:,} images for training, {held_out:,} held out"


def report(params_file: Path, compiled: bool) -> None:
    """Print the cost of a params file's run on this machine. Raises UserError."""
    params = read_params(params_file)
    if not isinstance(params, ExpertParams):
        raise UserError(f"{params_file}: no params file of a pipeline; the pilot of a comparison says what it costs")
    params, net, measured = measured_here(params, True, compiled)
    works = workload(params, layer_macs(net), num_parameters(net))
    print_table(works, measured, params.training.precision, start_seconds())
    say(passes_line(params), *parameters_lines(params, net).split("\n"))
    say(comparison(measured, params, device_of(params)))
    say(*recommended_threads(measured.training, params), *busy(params), "")
    say(MEMORY.format(with_prefix(training_memory(params, net))))
