"""What a device is called, and what it computes float32 in."""

import torch

#: Compute capability of the first GPUs that have TF32 (Ampere).
TF32_SINCE = (8, 0)


def computed_on(device: torch.device) -> dict[str, str]:
    """What stands beside figures: the device, a GPU by its name, and what it takes for float32."""
    if device.type == "cpu":
        return {"device": "cpu", "fp32": "ieee"}
    return {"device": torch.cuda.get_device_name(device), "fp32": float32_on_gpu(device)}


def float32_on_gpu(device: torch.device) -> str:
    """TF32 (10 bits of mantissa) where PyTorch's switches allow it and the GPU has it."""
    has_tf32 = torch.cuda.get_device_capability(device) >= TF32_SINCE
    allowed = {"convolutions": torch.backends.cudnn.allow_tf32, "products": torch.backends.cuda.matmul.allow_tf32}
    return ", ".join(f"{what} {'tf32' if has_tf32 and may else 'ieee'}" for what, may in allowed.items())
