"""Sizes that are counted from settings are those of the networks that are built of them."""

from pathlib import Path

import pytest
import torch
from graph import ROOT

from unequal.models.backbones.registry import backbone_of
from unequal.models.backbones.unet2d.architecture import build_unet
from unequal.models.backbones.unet2d.size import size_of
from unequal.settings.condition import ClassLabels
from unequal.settings.network import UNet2D
from unequal.settings.strict import read_yaml
from unequal.tools.sections import Architecture, seen

SETTINGS = {
    "pretrained": None,
    "block_out_channels": (32, 64),
    "layers_per_block": 1,
    "attention_resolutions": (),
    "middle_attention": True,
    "attention_head_dim": 16,
    "norm_num_groups": 8,
    "scale_shift": False,
    "dropout": 0.0,
}
PARAMS_FILES = [
    path
    for path in [ROOT / "params.yaml", *sorted((ROOT / "presets").glob("*.yaml"))]
    if "kind" not in read_yaml(path)["network"]
]
KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "attention below": {"attention_resolutions": (8,), "layers_per_block": 2},
    "no attention": {"middle_attention": False},
    "three levels": {"block_out_channels": (32, 32, 64), "attention_resolutions": (4,)},
    "scale and dropout": {"scale_shift": True, "dropout": 0.1},
    "classes": {"condition": ClassLabels(classes=7)},
}


def network(**changes: object) -> UNet2D:
    return UNet2D.model_validate(SETTINGS | changes)


@pytest.mark.parametrize("path", PARAMS_FILES, ids=lambda path: path.stem)
def test_parameters_are_those_of_the_network(path: Path) -> None:
    uses = Architecture.read(path)
    channels, size, _ = seen(uses).shape
    with torch.device("meta"):
        net = build_unet(uses.network, size, channels, 2 * channels)
    assert size_of(uses.network, size, channels, 2 * channels).parameters == sum(p.numel() for p in net.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_values_kept_are_about_those_that_autograd_keeps(kind: str) -> None:
    settings = network(**KINDS[kind])
    net = build_unet(settings, 16, 3, 3).train()
    own = {parameter.untyped_storage().data_ptr() for parameter in net.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        net(*backbone_of(net).example_inputs(net))
    size = size_of(settings, 16, 3, 3)
    assert size.parameters == sum(parameter.numel() for parameter in net.parameters())
    assert 0.95 < size.kept / (sum(storage.nbytes() for storage in kept.values()) / 4) < 1.25


def test_more_pixels_take_more_of_everything_but_parameters() -> None:
    small, large = (size_of(network(), size, 3, 3) for size in (8, 16))
    assert large.parameters == small.parameters
    assert large.kept == 4 * small.kept
    assert large.passing == 4 * small.passing
