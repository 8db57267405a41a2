"""The accelerator of a training: its device, its precision, how its processes exchange gradients and when they stop.

Processes average gradients in buckets while the backward pass goes on. The buckets are the gradients' own memory, and
their order is settled at the first step where each step has one backward pass.

Model FLOPs utilisation (2204.02311) is the operations that a network needs a second, over what its GPU could do. The
peak is the published rate of dense matrix products in bf16, whatever precision a training has: figures of all trainings
on a card then compare, with published ones too.
"""

import re
import time
from collections.abc import Callable

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DDPCommunicationHookType, DistributedDataParallelKwargs
from torch import nn

from unequal.errors import UserError
from unequal.models.backbones.backbone import count_cost, training_flops
from unequal.runtime import processes
from unequal.runtime.devices import chosen_precision, is_compiled
from unequal.runtime.environment import drop_variables
from unequal.settings.training import Runtime, Training

#: Most steps, and about the most seconds, between two exchanges. A cluster may kill 30 s after it has asked to stop,
#: and the state has to be saved by then.
STEPS_BETWEEN, SECONDS_BETWEEN = 10, 1.0
#: Part of the name that CUDA gives a card → bf16 operations a second without sparsity, by NVIDIA's data sheets, where
#: they often stand with sparsity, twice as high. The first part that fits counts.
PEAKS = {
    "B200": 2250e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10G": 70e12,
    "A10": 125e12,
    "A40": 150e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


def accelerator_of(device: torch.device, training: Training, runtime: Runtime) -> Accelerator:
    """Connect the processes of a training; returns what moves, shares and steps its network.

    Args:
        device: of this process.
        training, runtime: settings.

    Raises:
        UserError: a batch has fewer images than parts.
    """
    # One process may train in several precisions: a pruned candidate, then the experts of a plan.
    AcceleratorState._reset_state()
    drop_variables(launched=processes.folder() is not None)
    processes.meet("gloo" if device.type == "cpu" else "nccl")
    half = DDPCommunicationHookType.BF16 if training.gradient_exchange == "bf16" else DDPCommunicationHookType.NO
    shared = DistributedDataParallelKwargs(
        bucket_cap_mb=runtime.bucket_mb,
        gradient_as_bucket_view=True,
        static_graph=training.gradient_accumulation == 1,
        broadcast_buffers=False,  # they are constants
        comm_hook=half,
    )
    bf16 = chosen_precision(training.precision, device) == "bf16"
    accelerator = Accelerator(
        cpu=device.type == "cpu", mixed_precision="bf16" if bf16 else "no", kwargs_handlers=[shared]
    )
    sharing, parts = accelerator.num_processes, training.gradient_accumulation
    if sharing * parts > training.batch_size:
        raise UserError(
            f"{sharing} processes, each with {parts} accumulated part(s), cannot share a batch of "
            f"{training.batch_size}; lower runtime.processes or raise training.batch_size"
        )
    return accelerator


def forward_of(
    net: nn.Module, accelerator: Accelerator, training: Training, runtime: Runtime, steps: int
) -> tuple[nn.Module, bool]:
    """Prepare a network for its passes: compile it where that pays, and share its gradients.

    Returns:
        What is called, and whether compiled passes are replayed from CUDA graphs: launching a small network's kernels
        one by one takes longer than computing them.
    """
    parts, on_gpu = training.gradient_accumulation, accelerator.device.type == "cuda"
    compiled = is_compiled(runtime.compile, accelerator.device, steps * parts)
    alone = accelerator.num_processes == parts == 1
    graphs = compiled and runtime.cuda_graphs and alone and on_gpu
    mode = "reduce-overhead" if graphs else None
    return accelerator.prepare(torch.compile(net, mode=mode) if compiled else net), graphs


class StopSync:
    """Agreement of all processes of a training on when to stop: a signal may reach one of them alone, or earlier.

    Attributes:
        last, at: the step, and the moment, of the last exchange.
        next: the step after which they exchange again, the same in all of them.
    """

    def __init__(self, accelerator: Accelerator, step: int) -> None:
        self.accelerator, self.last, self.at, self.next = accelerator, step, time.monotonic(), step + 1

    def stops(self, step: int, asked: Callable[[], bool]) -> bool:
        """Say whether to stop after this step; `asked` says whether this process was asked to."""
        if self.accelerator.num_processes == 1:
            return asked()
        if step < self.next:
            return False
        seconds = (time.monotonic() - self.at) / (step - self.last)
        ours = torch.tensor([float(asked()), seconds], device=self.accelerator.device)
        asking, seconds = self.accelerator.reduce(ours).tolist()
        # The mean over processes, so that all compute the same number of steps.
        between = int(SECONDS_BETWEEN * self.accelerator.num_processes / max(seconds, 1e-9))
        self.last, self.at, self.next = step, time.monotonic(), step + min(max(between, 1), STEPS_BETWEEN)
        return asking > 0


def peak_flops(device: torch.device) -> float | None:
    """Return a GPU's peak in operations a second; None for a CPU, and for a card that is not in the table."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in PEAKS.items() if re.search(rf"\b{part}\b", name)), None)


def flops_per_image(net: nn.Module) -> int:
    """Count the operations of training with one image, attention included; a multiply and an add are two."""
    return 2 * training_flops(count_cost(net).macs_with_attention, 1)


def utilisation_of(net: nn.Module, device: torch.device, devices: int = 1) -> float | None:
    """Return the share of a number of devices' peak that an image a second uses; None where the peak is unknown."""
    peak = peak_flops(device)
    return None if peak is None else flops_per_image(net) / (peak * devices)
