"""What a device computes with: its name and arithmetic, choices that settings leave to it, parts of long work."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

import torch

if TYPE_CHECKING:
    from unequal.settings.training import Runtime

#: Compute capability of the first GPUs that have TF32 (Ampere).
TF32_SINCE = (8, 0)


def computed_on(device: torch.device) -> dict[str, str]:
    """Describe the conditions of figures: the device, a GPU by its name, and its arithmetic for float32."""
    if device.type == "cpu":
        return {"device": "cpu", "fp32": "ieee"}
    # TF32 (10 bits of mantissa) where PyTorch's switches allow it and the GPU has it.
    has_tf32 = torch.cuda.get_device_capability(device) >= TF32_SINCE
    allowed = {"convolutions": torch.backends.cudnn.allow_tf32, "products": torch.backends.cuda.matmul.allow_tf32}
    fp32 = ", ".join(f"{what} {'tf32' if has_tf32 and may else 'ieee'}" for what, may in allowed.items())
    return {"device": torch.cuda.get_device_name(device), "fp32": fp32}


def has_bf16(device: torch.device) -> bool:
    """Say whether a device is a GPU that computes in bf16 without emulation."""
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def chosen_precision(asked: str, device: torch.device) -> Literal["fp32", "bf16"]:
    """The precision on a device where the settings ask for one, or for `auto`."""
    return "bf16" if asked == "bf16" or (asked == "auto" and has_bf16(device)) else "fp32"


#: Calls of a network from which on `auto` compiles it. On an H200's host compiling DDPM's network for CIFAR-10 took
#: at most 44 s, and a step of the loop was 18 ms faster then, without CUDA graphs.
COMPILED_FROM = 2000


def is_compiled(asked: bool | str, device: torch.device, calls: int) -> bool:
    """Say whether `runtime.compile` has a network compiled on a device.

    `auto`: for so many calls that it saves time, on a GPU that has bf16. Triton builds its programs by a C compiler.
    """
    if asked == "auto":
        compilers = (os.environ.get("CC", ""), "cc", "gcc", "clang")
        has_tools = find_spec("triton") is not None and any(map(shutil.which, compilers))
        return calls >= COMPILED_FROM and has_bf16(device) and has_tools
    return bool(asked)


def memory_format(runtime: "Runtime") -> torch.memory_format:
    """Memory format of images and filters; set before optimizer and average copy the parameters' strides."""
    return torch.channels_last if runtime.channels_last else torch.contiguous_format


#: How many parts a long computation is cut into: one that is stopped loses a fiftieth at most.
CHUNKS = 50


def ranges(total: int, multiple: int) -> Iterator[range]:
    """Cut 0 … total−1 into at most CHUNKS ranges of whole multiples, the last one shorter where needed."""
    size = -(-total // (CHUNKS * multiple)) * multiple
    for start in range(0, total, size):
        yield range(start, min(start + size, total))
