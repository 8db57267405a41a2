"""What the benchmarks share: wall time with all that a GPU has queued, and the machine behind the figures."""

import platform
import time
from collections.abc import Callable
from typing import Any

import torch


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """Wall time of some work, with all that it has queued on a GPU."""
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def described(device: torch.device) -> dict[str, Any]:
    """The device, its threads and the library's version."""
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
