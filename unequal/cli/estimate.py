"""Cost of a params file in time, disk, memory and FLOPs, before anything runs.

FLOPs follow from the settings and from the stages that the models asked for need. Times follow from FLOPs by rates that
are measured here and now: a few training steps, a few forward passes, one start of a stage's imports.
"""

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from unequal.cli.architecture import limited_groups, network_of, spec_of
from unequal.data.sources import open_source
from unequal.data.split import training_images
from unequal.errors import UserError, one_line, say
from unequal.models.backbones.backbone import backbone_of, build_outline, layer_macs, training_flops
from unequal.pipeline.folders import needed, shipped
from unequal.pipeline.program import QUOTED, out_of_memory
from unequal.report.formatting import duration, with_prefix
from unequal.runtime.devices import chosen_precision
from unequal.runtime.processes import threads
from unequal.sampling.guidance import PASSES
from unequal.settings.evaluation import SampledFloor
from unequal.settings.params import EXPERTS, Params
from unequal.settings.pruning import Proxy
from unequal.settings.strict import read_yaml
from unequal.timesteps.groups import mean_limit
from unequal.training.pictures import COUNT, STEPS

BYTES_PER_WEIGHT = 4
TIMED_PASSES = 3
#: Target number of multiply–accumulates of a timed pass, so that large networks are timed on few images.
TIMED_MACS = 1e10
#: Copies of the weights in a resumable state: weights, their average, and two moments; in training, gradients and a
#: temporary copy of the optimizer's too.
STATE_COPIES, TRAINED_COPIES = 4, 6
#: The heaviest imports of a stage, and those of the Snakemake process that runs it.
IMPORTS, JOB = "import torch, diffusers, mlflow", "import dvc.repo, snakemake.cli"
NOTES = """\
On disk: {weights:.1f} MB of weights, in the workspace and in DVC's cache, and the data set as often; while a model
is trained, {state:.1f} MB of resumable state as well.
Memory: a training takes about {memory}B in float32, plus 1 GB of libraries (3.5 GB with CUDA).
FLOPs are multiply–accumulates without attention's products; a training step counts three forward passes.
Times are measured without torch.compile, on a few images; those of training in the precision that is chosen."""
#: Share of the requested processor time that a program gets on an idle machine; measured for so many seconds.
FREE, SECONDS = 0.9, 1.0


class Rates(NamedTuple):
    """Multiply–accumulates per second of training and of forward passes."""

    training: float
    forward: float


class Work(NamedTuple):
    """Multiply–accumulates of one kind of stage: in training (3 × forward) and in forward passes alone."""

    name: str
    instances: int
    training: float = 0.0
    forward: float = 0.0
    weights: int = 0

    def seconds(self, rates: Rates, start: float) -> float:
        """Seconds of all instances, each of which takes `start` seconds to begin."""
        return self.training / rates.training + self.forward / rates.forward + self.instances * start


def workload(params: Params, net: nn.Module) -> list[Work]:
    """Work of each kind of stage that the models asked for need, for the base's network. Three heads count as one."""
    macs, parameters = layer_macs(net), num_parameters(net)
    groups, recipes = limited_groups(params.schedule, params.groups), params.recipes
    limits = [group.limit_ratio for group in groups]

    def trained(name: str, recipe: str, shares: Sequence[float], *, pruned: bool = False) -> Work:
        images = (recipes[recipe].pruned_images if pruned else None) or recipes[recipe].images
        training = sum(training_flops(round(macs * share), images) for share in shares)
        drawn = (params.training.pictures or 0) * COUNT * STEPS * macs * sum(shares)
        return Work(name, len(shares), training, drawn, round(parameters * sum(shares)))

    def relative_cost(models: Sequence[str]) -> float:
        """Cost of models relative to the base: a timestep of pruned experts costs its group's limit."""
        return sum(mean_limit(groups) if model == EXPERTS[1] else 1 for model in models)

    calls = params.sampling.predictions * (1 if params.sampling.guidance is None else PASSES)
    profiled = relative_cost(params.profiled_models) * params.schedule.timesteps * 2 * params.profile.images
    sampled = relative_cost(params.scored_models) * params.evaluation.samples * len(params.evaluation.seeds) * calls
    works, others = list[Work](), 0
    for stage, values in needed(read_yaml(Path(shipped("dvc.yaml"))), params.model_dump()).items():
        match stage:
            case "train_base" if params.network.pretrained is None:
                works.append(trained(stage, "base", [1.0]))
            case "train_mixed":
                works.append(trained(stage, "mixed", [1.0]))
            case "train_recipe":
                works += [trained(f"{stage} {recipe}", recipe, [1.0]) for recipe in values]
            case "finetune_slots":
                works.append(trained(stage, "slot", [1.0] * len(values)))
            case "finetune_unpruned":
                works.append(trained(stage, "expert", [1.0] * len(limits)))
            case "finetune_groups":
                works.append(trained(stage, "expert", limits, pruned=True))
            case "prune":
                works.append(pruned_work(params, [macs * limit for limit in limits]))
            case "profile_floor":
                works.append(Work(stage, 1, forward=floor_macs(params)))
            case "profile_loss":
                works.append(Work(stage, len(values), forward=profiled * macs))
            case "evaluate_fid":
                works.append(Work(stage, len(values), forward=sampled * macs))
            case _:
                others += len(values) * (stage != "code")
    return [Work("the others", others), *works]


def images_at_hand(params: Params) -> tuple[int, int] | None:
    """Number of training and of held-out images; None: the data are not available."""
    try:
        count = len(open_source(params.data))
    except UserError:
        return None
    return (train := training_images(count, params.data.holdout)), count - train


def floor_macs(params: Params) -> float:
    """Work of the optimal denoiser, which compares each draw with its images, if their number is known."""
    chosen, compared = params.profile, (images_at_hand(params) or (0, 0))[0]
    match chosen.floor:
        case int(images) | SampledFloor(sampled=images):
            compared = images
        case "none":
            compared = 0
    values = params.data.channels * params.data.image_size**2
    return 2.0 * params.schedule.timesteps * chosen.images * compared * values


def pruned_work(params: Params, macs: list[float]) -> Work:
    """Work of pruning to these costs: trials of a decision maker, and as many random ones of its control.

    The cost of a method's own gradients is negligible.
    """
    method = params.pruning["expert"]
    if not isinstance(method, Proxy):
        return Work("prune", len(macs))
    trials = method.trials * (1 if method.control is None else 2)
    tuned = method.finetuning.images if method.finetuning else 0
    training = sum(training_flops(round(cost), trials * tuned) for cost in macs)
    return Work("prune", len(macs), training, forward=trials * method.images * sum(macs))


def measured_rate(run: Callable[[], object], macs: float, device: torch.device) -> float:
    """Multiply–accumulates per second of a pass with `macs` multiply–accumulates."""
    start = 0.0
    for passes in (1, TIMED_PASSES):  # the first one is not timed
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(passes):
            run()
        if device.type == "cuda":
            torch.cuda.synchronize()
    return TIMED_PASSES * macs / (time.perf_counter() - start)


def measured_here(params: Params) -> tuple[nn.Module, Rates]:
    """Network of the settings on its device, and its rates with the settings' batches, threads and precision.

    Raises UserError where memory does not suffice.
    """
    device = device_of(params)
    net = network_of(params).to(device)
    precision, macs = chosen_precision(params.training.precision, device), layer_macs(net)
    affordable = max(1, round(TIMED_MACS / macs))

    def batch(count: int) -> tuple[torch.Tensor, ...]:
        image, *indices = (torch.cat([one] * min(affordable, count)) for one in backbone_of(net).example_inputs(net))
        return torch.randn_like(image), *indices

    trained = batch(params.training.batch_size // params.training.gradient_accumulation)
    sampled = batch(params.sampling.batch_size)

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            answer = net(*trained).sample
        answer.float().square().mean().backward()

    try:
        with threads(params.runtime.threads):
            training = measured_rate(step, training_flops(macs, len(trained[0])), device)
            with torch.no_grad():
                return net, Rates(training, measured_rate(lambda: net(*sampled), macs * len(sampled[0]), device))
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise UserError(
            f"out of memory ({one_line(error)[:QUOTED]}); lower training.batch_size or sampling.batch_size"
        ) from None


def start_seconds(imports: str = IMPORTS) -> float:
    """Measure the seconds of imports in a process of their own."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", imports], check=True)
    return time.perf_counter() - start


def training_memory(params: Params, net: nn.Module) -> float:
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
    return TRAINED_COPIES * sum(one.nbytes for one in net.parameters()) + part * stored


def device_of(params: Params) -> torch.device:
    """Device that stages select on this machine."""
    return torch.device("cuda" if torch.cuda.is_available() and params.runtime.device != "cpu" else "cpu")


def num_parameters(net: nn.Module) -> int:
    """Count a network's weights."""
    return sum(one.numel() for one in net.parameters())


def busy(params: Params) -> Iterator[str]:
    """Yield a line on the slow-down of CPU measurements by other programs, if any, from a stage's share of the time."""
    if device_of(params).type == "cpu" and (share := share_of_time(params.runtime.threads)) < FREE:
        yield (
            f"Other programs run here: a stage gets {share:.0%} of the processor's time that it asks for. On a free "
            f"machine all of this takes about {share:.1g} of the time."
        )


def share_of_time(count: int) -> float:
    """Share of the processor's time that this number of constantly computing threads gets."""

    def computed(_: int) -> float:
        start, own = time.perf_counter(), time.thread_time()
        while time.perf_counter() - start < SECONDS:
            hashlib.sha256(bytes(2**20)).digest()  # enough that threads do not wait for Python
        return (time.thread_time() - own) / (time.perf_counter() - start)

    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(computed, range(count))) / count


def extent(params: Params) -> str:
    """Line on the resources that a params file's run needs on any machine. Raises UserError."""
    net = network_of(params)
    works = workload(params, build_outline(params.network, spec_of(params)))
    return (
        f"{with_prefix(num_parameters(net))} parameters; the base sees {params.recipes['base'].images:,} images; "
        f"{with_prefix(sum(work.training + work.forward for work in works))} FLOPs for all stages; "
        f"{with_prefix(training_memory(params, net))}B for a training in fp32"
    )


def brief(params: Params) -> str:
    """Line on the time that a params file's run takes on this machine. Raises UserError."""
    net, rates = measured_here(params)
    start = start_seconds()
    seconds = {work.name: work.seconds(rates, start) for work in workload(params, net)}
    return (
        f"about {duration(sum(seconds.values()))} on this machine's {device_of(params).type}, one stage after another; "
        f"{duration(seconds.get('train_base', 0.0))} of it for the base"
    )


def data_line(params: Params) -> str:
    """Line on the images: location, size and number."""
    data, counts = params.data, images_at_hand(params)
    where = data.source if data.path is None else f"{data.source} {data.path}"
    kind = {1: "grey", 3: "RGB"}.get(data.channels, f"{data.channels} channels")
    number = "not at hand" if counts is None else f"{counts[0]:,} images for training, {counts[1]:,} held out"
    return f"data: {where}, {data.image_size} × {data.image_size} pixels, {kind}; {number}"


def report(params: Params) -> None:
    """Print a row per kind of stage, their sum, and what else a run takes on this machine. Raises UserError."""
    net, rates = measured_here(params)
    works, start = workload(params, net), start_seconds()
    say(f"{'stage':24} {'instances':>9} {'FLOPs':>10} {'weights':>10} {'time':>9}")
    total = Work(
        "in all, one after another", *(sum(parts) for parts in zip(*(work[1:] for work in works), strict=True))
    )
    for work in (*works, total):
        macs, size = work.training + work.forward, work.weights * BYTES_PER_WEIGHT / 1e6
        seconds = duration(work.seconds(rates, start))
        say(f"{work.name:25} {work.instances:8} {macs:10.3g} {size:7.1f} MB {seconds:>9}")
    largest = max(work.weights / max(1, work.instances) for work in works) * BYTES_PER_WEIGHT
    notes = NOTES.format(
        weights=2 * total.weights * BYTES_PER_WEIGHT / 1e6,
        state=STATE_COPIES * largest / 1e6,
        memory=with_prefix(training_memory(params, net)),
    )
    say(*notes.split("\n"), *busy(params))
