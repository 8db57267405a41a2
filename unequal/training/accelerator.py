"""The accelerator of a training: its device, its precision, and how its processes exchange gradients.

Processes average gradients in buckets while the backward pass goes on. The buckets are the gradients' own memory, and
their order is settled at the first step where each step has one backward pass.
"""

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import DDPCommunicationHookType, DistributedDataParallelKwargs
from torch import nn

from unequal import processes
from unequal.environment import drop_variables
from unequal.errors import UserError
from unequal.settings.training import Runtime, Training
from unequal.workspace import chosen_precision, is_compiled


def accelerator_of(device: torch.device, training: Training, runtime: Runtime, passes: int) -> Accelerator:
    """Connect the processes of a training; returns what moves, shares and steps its network.

    Args:
        device: of this process.
        training, runtime: settings.
        passes: backward passes a step of this process; 0: a number that changes.

    Raises:
        UserError: a batch has fewer images than parts.
    """
    # One process may train in several precisions: a pruned candidate, then the experts of a plan.
    AcceleratorState._reset_state()
    drop_variables(launched=processes.folder() is not None)
    processes.meet("gloo" if device.type == "cpu" else "nccl")
    half = DDPCommunicationHookType.BF16 if training.gradient_exchange == "bf16" else DDPCommunicationHookType.NO
    shared = DistributedDataParallelKwargs(
        bucket_cap_mb=runtime.bucket_mb, gradient_as_bucket_view=True, static_graph=passes == 1, comm_hook=half
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
    net: nn.Module, accelerator: Accelerator, training: Training, runtime: Runtime, steps: int, *, one_graph: bool
) -> tuple[nn.Module, bool]:
    """Prepare a network for its passes: compile it where that pays, and share its gradients.

    Returns:
        What is called, and whether compiled passes are replayed from CUDA graphs: launching a small network's kernels
        one by one takes longer than computing them.
    """
    parts, on_gpu = training.gradient_accumulation, accelerator.device.type == "cuda"
    compiled = is_compiled(runtime.compile, accelerator.device, steps * parts)
    alone = accelerator.num_processes == parts == 1 and one_graph
    graphs = compiled and runtime.cuda_graphs and alone and on_gpu
    mode = "reduce-overhead" if graphs else None
    return accelerator.prepare(torch.compile(net, mode=mode) if compiled else net), graphs
