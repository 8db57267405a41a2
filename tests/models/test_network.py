"""Networks from settings, and their cost; what cannot be built is refused in one line."""

import pytest
import torch
from diffusers.models.attention_processor import Attention
from one_line import refusal
from specs import low_resolution
from torch import Tensor, nn

from unequal.models.backbones.backbone import count_cost, layer_macs

ENLARGING = low_resolution(4)


def test_cost_of_attention_is_its_two_products(tiny_net):
    cost = count_cost(tiny_net())
    assert layer_macs(tiny_net()) == cost.macs
    # The middle block: 4×4 positions, 16 channels; queries by keys, then weights by values.
    assert cost.macs_with_attention - cost.macs == 2 * 16 * 16 * 16
    without = count_cost(tiny_net(middle_attention=False))
    assert without.macs == without.macs_with_attention
    # Query, key, value and output projections are counted in either figure.
    assert cost.macs - without.macs == 4 * 16 * 16 * 16


def test_linear_layers_that_run_as_a_bmm_are_no_attention(tiny_net, monkeypatch):
    expected = count_cost(tiny_net())

    def as_bmm(layer: nn.Linear, inputs: Tensor) -> Tensor:
        flat = inputs.reshape(1, -1, inputs.shape[-1])
        found = torch.bmm(flat, layer.weight.T[None]).reshape(*inputs.shape[:-1], -1)
        return found if layer.bias is None else found + layer.bias

    monkeypatch.setattr(nn.Linear, "forward", as_bmm)
    assert count_cost(tiny_net()) == expected


def test_super_resolution_sees_two_images_side_by_side(tiny_net):
    net, plain = tiny_net(channels=3, condition=ENLARGING), tiny_net(channels=3)
    assert net(torch.zeros(2, 6, 8, 8), torch.tensor([0, 5])).sample.shape == (2, 3, 8, 8)
    # Three further channels into the first layer of 3×3 filters with 8 channels; nothing else is larger.
    assert count_cost(net).parameters - count_cost(plain).parameters == 3 * 9 * 8
    assert count_cost(net).macs - count_cost(plain).macs == 3 * 9 * 8 * 64


def test_learned_variance_doubles_the_output(tiny_net):
    net, plain = tiny_net(channels=3, variance="learned"), tiny_net(channels=3)
    assert net(torch.zeros(2, 3, 8, 8), torch.tensor([0, 5])).sample.shape == (2, 6, 8, 8)
    assert count_cost(net).parameters - count_cost(plain).parameters == 3 * (9 * 8 + 1)
    # Three heads learn no variance.
    assert tiny_net(heads=3, channels=3, variance="learned").config["out_channels"] == 9


def test_attention_stands_where_it_is_asked_for(tiny_net):
    config = tiny_net(attention_resolutions=(8,)).config
    assert config["down_block_types"] == ("AttnDownBlock2D", "DownBlock2D")
    assert config["up_block_types"] == ("UpBlock2D", "AttnUpBlock2D")


@pytest.mark.parametrize("scale_shift", [True, False])
def test_every_attention_is_normed(tiny_net, scale_shift):
    net = tiny_net(attention_resolutions=(8,), scale_shift=scale_shift)
    norms = [module.group_norm.num_groups for module in net.modules() if isinstance(module, Attention)]
    assert norms == [4] * 4


def test_attention_at_a_size_that_there_is_not(tiny_net):
    said = "attention_resolutions: 16 is no feature-map size; allowed: [8, 4]"
    assert said in refusal(tiny_net, attention_resolutions=(16,))
