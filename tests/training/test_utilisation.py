"""Model FLOPs utilisation: peaks by a card's name, and the operations of a training."""

import pytest
import torch

from unequal.models.backbones.backbone import count_cost
from unequal.training import accelerator
from unequal.training.accelerator import peak_flops, utilisation_of

GPU = torch.device("cuda")


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-40GB", 312e12),
        ("NVIDIA A10G", 70e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA L4", 121e12),
        ("Tesla T4", None),
    ],
)
def test_a_card_is_known_by_its_name(monkeypatch, name, peak):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_flops(GPU) == peak
    assert peak_flops(torch.device("cpu")) is None


def test_two_devices_that_train_a_layer(tiny_net, monkeypatch):
    """A step is three forward passes, and a multiply–accumulate two operations."""
    net = tiny_net()
    monkeypatch.setattr(accelerator, "peak_flops", lambda device: 1e12)
    expected = 3 * 2 * count_cost(net).macs_with_attention / 2e12
    assert utilisation_of(net, GPU, 2) == pytest.approx(expected)
