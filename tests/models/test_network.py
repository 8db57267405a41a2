"""Networks from settings and folders, and their cost; what cannot be built or loaded is refused in one line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import DDPMPipeline, DDPMScheduler
from diffusers.models.unets.unet_2d import UNet2DModel

from unequal.errors import UserError
from unequal.models.flops import count_cost, training_flops
from unequal.models.network import build_network, load_pretrained
from unequal.settings.task import SuperResolution

Load = Callable[..., UNet2DModel]
ENLARGING = SuperResolution(kind="super_resolution", factor=4)


def test_cost_of_attention_is_its_two_products(tiny_net: Callable[..., UNet2DModel]) -> None:
    cost = count_cost(tiny_net())
    # The middle block: 4×4 positions, 16 channels; queries by keys, then weights by values.
    assert cost.macs_with_attention - cost.macs == 2 * 16 * 16 * 16
    without = count_cost(tiny_net(middle_attention=False))
    assert without.macs == without.macs_with_attention
    # Query, key, value and output projections are counted in either figure.
    assert cost.macs - without.macs == 4 * 16 * 16 * 16


def test_super_resolution_sees_two_images_side_by_side(tiny_net: Callable[..., UNet2DModel]) -> None:
    net, plain = tiny_net(channels=3, task=ENLARGING), tiny_net(channels=3)
    assert net(torch.zeros(2, 6, 8, 8), torch.tensor([0, 5])).sample.shape == (2, 3, 8, 8)
    # Three further channels into the first layer of 3×3 filters with 8 channels; nothing else is larger.
    assert count_cost(net).parameters - count_cost(plain).parameters == 3 * 9 * 8
    assert count_cost(net).macs - count_cost(plain).macs == 3 * 9 * 8 * 64


def test_learned_variance_doubles_the_output(tiny_net: Callable[..., UNet2DModel]) -> None:
    net, plain = tiny_net(channels=3, learned_variance=True), tiny_net(channels=3)
    assert net(torch.zeros(2, 3, 8, 8), torch.tensor([0, 5])).sample.shape == (2, 6, 8, 8)
    assert count_cost(net).parameters - count_cost(plain).parameters == 3 * (9 * 8 + 1)
    # Three heads learn no variance.
    assert tiny_net(heads=3, channels=3, learned_variance=True).config["out_channels"] == 9


def test_training_costs_three_forward_passes() -> None:
    assert training_flops(macs=7, images=10) == 210


@pytest.mark.parametrize(("heads", "channels"), [(1, 1), (3, 1), (3, 3)])
def test_shapes(tiny_net: Callable[..., UNet2DModel], heads: int, channels: int) -> None:
    net = tiny_net(heads=heads, channels=channels)
    answer = net(torch.zeros(2, channels, 8, 8), torch.tensor([0, 5])).sample
    assert answer.shape == (2, heads * channels, 8, 8)


def test_attention_stands_where_it_is_asked_for(tiny_net: Callable[..., UNet2DModel]) -> None:
    config = tiny_net(attention_resolutions=(8,)).config
    assert config["down_block_types"] == ("AttnDownBlock2D", "DownBlock2D")
    assert config["up_block_types"] == ("UpBlock2D", "AttnUpBlock2D")


def test_attention_at_a_size_that_there_is_not(tiny_net: Callable[..., UNet2DModel]) -> None:
    with pytest.raises(UserError, match=r"attention_resolutions: 16 is no feature-map size; allowed: \[8, 4\]"):
        tiny_net(attention_resolutions=(16,))


def test_an_odd_number_of_layers_still_returns_to_the_image_size(
    network_settings: Callable[..., Any],
) -> None:
    net = build_network(network_settings(block_out_channels=(8, 8, 16)), 12, 1)
    assert net(torch.zeros(1, 1, 12, 12), 0).sample.shape == (1, 1, 12, 12)


def same_weights(one: UNet2DModel, other: UNet2DModel) -> bool:
    first, second = one.state_dict(), other.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture
def load(network_settings: Callable[..., Any]) -> Load:
    """Take the network of a folder, as the settings of a tiny one name it."""

    def load(source: Path, size: int = 8, channels: int = 1, **changes: Any) -> UNet2DModel:
        return load_pretrained(network_settings(pretrained=str(source), **changes), size, channels)

    return load


def test_pretrained_from_a_folder_of_a_model(tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load) -> None:
    net = tiny_net()
    net.save_pretrained(tmp_path / "model")
    assert same_weights(load(tmp_path / "model"), net)


def test_pretrained_from_a_folder_of_a_pipeline(
    tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load
) -> None:
    net = tiny_net()
    DDPMPipeline(net, DDPMScheduler()).save_pretrained(tmp_path / "pipeline")
    assert same_weights(load(tmp_path / "pipeline"), net)


def test_pretrained_for_super_resolution(tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load) -> None:
    net = tiny_net(task=ENLARGING)
    net.save_pretrained(tmp_path / "enlarging")
    tiny_net().save_pretrained(tmp_path / "generating")
    assert same_weights(load(tmp_path / "enlarging", task=ENLARGING), net)
    assert "2 channels in and 1 out" in refusal(load, tmp_path / "enlarging")
    assert "which is 2 in for super_resolution" in refusal(load, tmp_path / "generating", task=ENLARGING)


def test_pretrained_with_learned_variance(tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load) -> None:
    net = tiny_net(learned_variance=True)
    net.save_pretrained(tmp_path / "learned")
    tiny_net().save_pretrained(tmp_path / "plain")
    assert same_weights(load(tmp_path / "learned", learned_variance=True), net)
    assert "1 channels in and 2 out; the data" in refusal(load, tmp_path / "learned")
    assert "1 out without learned variance" in refusal(load, tmp_path / "learned")
    assert "2 out with learned variance" in refusal(load, tmp_path / "plain", learned_variance=True)


def refusal(load: Load, *args: Any, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(*args, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("size", "channels"), [(16, 1), (8, 3)])
def test_pretrained_for_other_images(
    tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load, size: int, channels: int
) -> None:
    tiny_net().save_pretrained(tmp_path)
    said = refusal(load, tmp_path, size, channels)
    assert "size 8 with 1 channels in and 1 out" in said
    assert f"the data have size {size} and {channels} channels" in said


def test_pretrained_with_three_heads(tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load) -> None:
    tiny_net(heads=3).save_pretrained(tmp_path)
    assert "1 channels in and 3 out" in refusal(load, tmp_path)


def test_pretrained_that_is_not_there(tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "holds no UNet2DModel" in refusal(load, tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "holds no UNet2DModel" in refusal(load, tmp_path / "empty")


@pytest.mark.parametrize("kept", [0, 5, 1000, -1])
def test_pretrained_cut_short(tmp_path: Path, tiny_net: Callable[..., UNet2DModel], load: Load, kept: int) -> None:
    tiny_net().save_pretrained(tmp_path)
    weights = tmp_path / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:kept])
    assert str(tmp_path) in refusal(load, tmp_path)
