"""`auto` for precision and compiler: what the device decides, and that equal settings give equal bytes there."""

import shutil

import pytest
import torch

from unequal.runtime import devices
from unequal.runtime.devices import COMPILED_FROM, chosen_precision, is_compiled

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture
def has_bf16(monkeypatch):
    def answer(supported: bool) -> None:
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported)

    return answer


@pytest.mark.parametrize(
    ("device", "supported", "precision", "compiled"),
    [(CPU, True, "fp32", False), (GPU, False, "fp32", False), (GPU, True, "bf16", True)],
)
def test_auto_is_what_the_device_has(device, supported, precision, compiled, has_bf16, monkeypatch):
    has_bf16(supported)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/cc" if name == "cc" else None)
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    assert chosen_precision("auto", device) == precision
    assert is_compiled("auto", device, COMPILED_FROM) == compiled
    assert not is_compiled("auto", device, COMPILED_FROM - 1)
    for asked in ("fp32", "bf16"):
        assert chosen_precision(asked, device) == asked
    for switched in (True, False):
        assert is_compiled(switched, device, 0) == switched


@pytest.mark.parametrize("missing", ["a compiler", "Triton"])
def test_auto_compiles_nothing_where_it_cannot(missing, has_bf16, monkeypatch):
    has_bf16(True)
    monkeypatch.setattr(shutil, "which", lambda name: None if missing == "a compiler" else name)
    monkeypatch.setattr(devices, "find_spec", lambda name: None if missing == "Triton" else name)
    assert not is_compiled("auto", GPU, COMPILED_FROM)
