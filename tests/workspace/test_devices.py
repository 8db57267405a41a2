"""What stands beside figures of where they were computed."""

import pytest
import torch

from unequal.workspace import computed_on


def test_a_processor_computes_float32_in_full() -> None:
    assert computed_on(torch.device("cpu")) == {"device": "cpu", "fp32": "ieee"}


@pytest.mark.parametrize(
    ("capability", "convolutions", "products", "said"),
    [
        ((9, 0), True, False, "convolutions tf32, products ieee"),
        ((8, 0), False, True, "convolutions ieee, products tf32"),
        ((7, 5), True, True, "convolutions ieee, products ieee"),
    ],
)
def test_a_gpu_is_told_with_what_it_takes_for_float32(
    capability: tuple[int, int], convolutions: bool, products: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    try:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = convolutions, products
        assert computed_on(torch.device("cuda", 0)) == {"device": "a GPU", "fp32": said}
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
