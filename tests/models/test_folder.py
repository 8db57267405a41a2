"""A model folder gives back what was saved; whatever is missing, cut short or altered is named in one line."""

from collections.abc import Callable

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from one_line import refusal

from unequal.models.folder import (
    CONFIG,
    PRUNING,
    WEIGHTS,
    Heads,
    load_heads,
    load_model,
    load_record,
    load_removals,
    save_model,
)
from unequal.models.pruned import load_any_model, take_away
from unequal.runtime.files import content_hash

BuildNet = Callable


def answer(net: UNet2DModel) -> torch.Tensor:
    image = torch.linspace(-1, 1, 128).reshape(2, 1, 8, 8)
    with torch.no_grad():
        return net.eval()(image, torch.tensor([3, 30])).sample


@pytest.fixture
def folder(tmp_path, tiny_net, make_record):
    net = tiny_net()
    save_model(tmp_path / "model", net, make_record(net))
    return tmp_path / "model"


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_are_no_numbers_are_not_saved(tmp_path, tiny_net, make_record, value):
    net = tiny_net()
    with torch.no_grad():
        net.conv_out.bias[0] = value
    said = refusal(save_model, tmp_path / "model", net, make_record(net))
    assert said.startswith("model 'tiny': weight 'conv_out.bias' holds NaN or infinite values; allowed")
    assert not (tmp_path / "model").exists()


def test_what_was_saved_comes_back(folder, tiny_net, make_record):
    net, record = load_model(folder)
    assert torch.equal(answer(net), answer(tiny_net()))
    assert torch.equal(answer(UNet2DModel.from_pretrained(folder)), answer(net)), "diffusers reads it by itself"
    assert record.sha256[WEIGHTS] == content_hash(folder / WEIGHTS)
    assert make_record(tiny_net(), sha256=record.sha256) == record
    assert load_removals(folder) is None
    assert load_heads(folder) is None
    assert not net.training
    assert not any(parameter.requires_grad for parameter in net.parameters())


def test_a_model_saved_again_over_one_with_snapshots_is_sound(tmp_path, tiny_net, make_record):
    other = tiny_net()
    with torch.no_grad():
        next(other.parameters()).add_(1)
    save_model(tmp_path / "model/snapshots/10", other, make_record(other))
    save_model(tmp_path / "model", net := tiny_net(), make_record(net))
    load_model(tmp_path / "model")
    assert load_record(tmp_path / "model").sha256.keys() == {CONFIG, WEIGHTS}


def test_a_pruned_model(tmp_path, tiny_net, make_record):
    net = tiny_net()
    removals = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6]), ("mid_block.attentions.0.to_q", [4, 5, 6, 7])]
    take_away(net, removals)
    save_model(tmp_path / "pruned", net, make_record(net), removals)
    loaded, record = load_any_model(tmp_path / "pruned")
    assert torch.equal(answer(loaded), answer(net))
    assert sum(parameter.numel() for parameter in loaded.parameters()) == record.parameters
    assert load_removals(tmp_path / "pruned") == removals


def test_where_nothing_is_pruned_a_pruned_model_is_refused(tmp_path, tiny_net, make_record):
    save_model(tmp_path, tiny_net(), make_record(tiny_net()), [])
    assert refusal(load_model, tmp_path) == f"{tmp_path}: a pruned model; allowed here: models that were never pruned"
    # What is damaged is said first.
    (tmp_path / PRUNING).write_text("[")
    assert "altered or cut short" in refusal(load_model, tmp_path)


def test_a_model_with_three_heads(tmp_path, tiny_net, make_record):
    net, heads = tiny_net(heads=3), Heads(torch.rand(50, 3, dtype=torch.float64), torch.rand(50, 3, 3))
    save_model(tmp_path / "mixed", net, make_record(net, prediction="mixed"), heads=heads)
    assert torch.equal(answer(load_model(tmp_path / "mixed")[0]), answer(net))
    loaded = load_heads(tmp_path / "mixed")
    assert loaded is not None
    assert torch.equal(loaded.weights, heads.weights)
    assert torch.equal(loaded.products, heads.products)


def test_weights_are_stored_in_float32(tmp_path, tiny_net, make_record):
    net = tiny_net()
    save_model(tmp_path / "half", net.bfloat16(), make_record(tiny_net()))
    assert all(parameter.dtype == torch.float32 for parameter in load_model(tmp_path / "half")[0].parameters())
