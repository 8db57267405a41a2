"""Checkpoints in OpenAI's format answer as UNet2DModel what they answer by themselves; what cannot be is refused."""

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from one_line import refusal
from openai_unet import OpenAIUNet
from pickles import Trap
from specs import labelled_low_resolution, spec_of
from torch import Tensor
from torch.nn import functional

from unequal.models.backbones.backbone import Unexportable, backbone_of, take_over
from unequal.models.backbones.unet2d.backbone import attentions
from unequal.models.backbones.unet2d.exchange import load_diffusers
from unequal.models.backbones.unet2d.openai import OpenAIArchitecture, load_openai, translated
from unequal.models.backbones.unet2d.pruning import PrunableUNet2D
from unequal.models.conditions import condition_of
from unequal.models.denoiser import Denoiser
from unequal.models.folder import load_model, save_model
from unequal.models.pruned import load_any_model, take_away
from unequal.models.weights import check_shapes
from unequal.settings.network import OpenAIFlags

TIMESTEPS = torch.tensor([0, 3, 999])
#: Arguments of the network, and the flags that its user has to repeat.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "improved": ({}, {"num_heads": 2}),
    "improved, no scale": ({"scale_shift": False, "heads": 1, "outputs": 3}, {"num_heads": 1}),
    "improved, no attention below": ({"attended": (), "multiples": (1, 3)}, {"num_heads": 2}),
    # As IDDPM's network for ImageNet at 64 pixels: as many heads at every level, of 16 and 24 and 32 channels.
    "improved, heads of several widths": (
        {"heads": 4, "multiples": (1, 2, 3, 4), "attended": (1, 2, 3), "layers": 1},
        {"num_heads": 4},
    ),
    "guided": (
        {"heads": 16, "by_width": True, "updown": True, "attended": (0, 1), "multiples": (1, 2, 3)},
        {"num_head_channels": 16},
    ),
    "guided, new order": (
        {"heads": 16, "by_width": True, "by_head": False, "updown": True},
        {"num_head_channels": 16, "use_new_attention_order": True},
    ),
}


def network(**changes: Any) -> OpenAIUNet:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = OpenAIUNet(**changes).eval()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.copy_(parameter + 0.1 * torch.randn(parameter.shape))
    return net


def saved(net: OpenAIUNet, folder: Path) -> Path:
    path = folder / "ema_0.9999_500000.pt"
    torch.save(net.state_dict(), path)
    return path


def load(path: Path, dropout: float = 0.0, **flags: Any) -> UNet2DModel:
    return load_openai(path, OpenAIFlags(**flags), 16, dropout)


def images(channels: int = 3) -> Tensor:
    return torch.randn(3, channels, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_a_checkpoint_answers_as_its_own_network(kind, tmp_path):
    arguments, flags = KINDS[kind]
    net = network(**arguments)
    loaded = load(saved(net, tmp_path), 0.1, **flags)
    known, found = net(images(), TIMESTEPS), loaded(images(), TIMESTEPS).sample
    assert float(known.std()) > 0.1
    torch.testing.assert_close(found, known, atol=1e-4, rtol=1e-4)
    assert loaded.config["dropout"] == 0.1
    assert not loaded.training


@torch.no_grad()
def test_half_precision_and_classes(tmp_path):
    net = network(classes=7, inputs=1, outputs=2)
    loaded = load(saved(net.half(), tmp_path), num_heads=2)
    labels = torch.tensor([0, 3, 6])
    found = loaded(images(1), TIMESTEPS, class_labels=labels).sample
    torch.testing.assert_close(found, net.float()(images(1), TIMESTEPS, labels), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_an_upsampler_of_classes_sees_the_enlarged_image_and_the_label(tmp_path, network_settings):
    """guided-diffusion's 64 → 256 network, small: the low-resolution image is enlarged and joined to the noisy one."""
    net = network(classes=7, inputs=6, heads=4, multiples=(1, 2), attended=(0, 1), updown=True)
    condition = labelled_low_resolution(4, 7)
    settings = network_settings(
        pretrained=str(saved(net, tmp_path)), openai=OpenAIFlags(num_heads=4), condition=condition, variance="learned"
    )
    spec = spec_of(channels=3, size=16, condition=condition, variance="learned", timesteps=1000)
    denoiser = Denoiser.of(take_over(settings, spec), spec)
    x_t, x0, labels = images(), images().flip(0).clamp(-1, 1), torch.tensor([0, 3, 6])
    low = functional.interpolate(functional.interpolate(x0, 4, mode="area"), 16, mode="bilinear")
    known = net(torch.cat([x_t, low], dim=1), TIMESTEPS, labels)
    bound = denoiser.conditioned_on(x0, labels)
    torch.testing.assert_close(bound.whole_answer(x_t, TIMESTEPS), known, atol=1e-4, rtol=1e-4)
    for labels_alone in (None, labels[:0]):
        given = condition_of(condition).of(x0 if labels_alone is None else None, labels_alone)
        said = refusal(denoiser.conditioned, given)
        assert "a model of super-resolution with 7 classes needs a low-resolution image" in said


#: Networks of guided-diffusion: architecture, heads, and millions of parameters by its paper (2105.05233, appendix).
PUBLISHED: dict[str, tuple[dict[str, Any], dict[str, int], int, int]] = {
    "ImageNet-256": (
        {"width": 256, "multiples": (1, 1, 2, 2, 4, 4), "attended": (3, 4, 5), "heads": 64, "by_width": True},
        {"num_head_channels": 64},
        256,
        554,
    ),
    "64 to 256": (
        {"width": 192, "multiples": (1, 1, 2, 2, 4, 4), "attended": (3, 4, 5), "heads": 4, "inputs": 6},
        {"num_heads": 4},
        256,
        312,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks_have_a_place_for_every_tensor(name):
    arguments, flags, size, millions = PUBLISHED[name]
    with torch.device("meta"):
        state = OpenAIUNet(classes=1000, updown=True, **arguments).state_dict()
        architecture = OpenAIArchitecture.of(state)
        net = architecture.network(size, OpenAIFlags(**flags), 0.0)
        weights = translated(state, architecture, OpenAIFlags(**flags))
    check_shapes(weights, net, name)
    assert sum(one.numel() for one in state.values()) == pytest.approx(millions * 1e6, rel=0.005)


@torch.no_grad()
def test_a_checkpoint_becomes_a_model_folder_and_is_pruned(tmp_path, make_record):
    net = network(heads=16, by_width=True, updown=True)
    loaded = load(saved(net, tmp_path), num_head_channels=16)
    save_model(tmp_path / "base", loaded, make_record(loaded, size=16, channels=3, variance="learned"))
    again, _ = load_model(tmp_path / "base")
    torch.testing.assert_close(again(images(), TIMESTEPS).sample, net(images(), TIMESTEPS), atol=1e-4, rtol=1e-4)
    # The residual block that doubles the size loses half its channels along with those before it.
    take_away(again, [("up_blocks.0.resnets.2.conv2", list(range(0, 64, 2)))])
    assert again.up_blocks[0].upsamplers[0].conv1.in_channels == 32
    assert again(images(), TIMESTEPS).sample.shape == (3, 6, 16, 16)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    net = network(heads=4, multiples=(1, 2), attended=(0,), layers=1)
    return net, load(saved(net, tmp_path_factory.mktemp("several")), num_heads=4)


@torch.no_grad()
def test_heads_of_several_widths_stay_in_a_model_folder(several, tmp_path, make_record):
    net, loaded = several
    save_model(tmp_path, loaded, make_record(loaded, size=16, channels=3, variance="learned"))
    again, _ = load_model(tmp_path)
    known = net(images(), TIMESTEPS)
    torch.testing.assert_close(again(images(), TIMESTEPS).sample, known, atol=1e-4, rtol=1e-4)
    # As the `pretrained` network of another project: diffusers alone would read past the heads.
    torch.testing.assert_close(
        load_diffusers(str(tmp_path), 0.0)(images(), TIMESTEPS).sample, known, atol=1e-4, rtol=1e-4
    )
    assert float((UNet2DModel.from_pretrained(tmp_path)(images(), TIMESTEPS).sample - known).abs().max()) > 1e-2
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"attention_heads": 4', '"attention_heads": 5'))
    said = "attention_heads: 5; allowed: what divides 32, the channels of a level"
    assert said in refusal(load_diffusers, str(tmp_path), 0.0)


@torch.no_grad()
def test_pruning_takes_whole_heads_of_several_widths(several, tmp_path, make_record):
    """Heads whose outputs go nowhere can be pruned without a change of the answer."""
    loaded = copy.deepcopy(several[1])
    parts = {layer.name: layer.parts for layer in PrunableUNet2D().layers(loaded) if layer.heads}
    assert set(parts.values()) == {4}
    removals = [("down_blocks.0.attentions.0.to_q", range(8, 24)), ("mid_block.attentions.0.to_q", range(32, 64))]
    for name, gone in removals:
        loaded.get_submodule(name.replace("to_q", "to_out.0")).weight[:, gone] = 0
    known = loaded(images(), TIMESTEPS).sample
    history = [(name, list(gone)) for name, gone in removals]
    take_away(loaded, history)
    assert [(one.heads, width) for one, width in attentions(loaded)] == [(2, 8), (4, 8), (4, 8), (2, 16)]
    record = make_record(loaded, size=16, channels=3, variance="learned")
    save_model(tmp_path, loaded, record, history)
    again, _ = load_any_model(tmp_path)
    torch.testing.assert_close(again(images(), TIMESTEPS).sample, known, atol=1e-4, rtol=1e-4)


def test_diffusers_cannot_hold_heads_of_several_widths(several, tmp_path, make_record):
    record = make_record(several[1], size=16, channels=3, variance="learned")
    with pytest.raises(Unexportable, match="attention heads of several widths"):
        backbone_of(several[1]).export(several[1], record.spec, tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


def refused(path: Path, **flags: Any) -> str:
    said = refusal(load, path, **(flags or {"num_heads": 2}))
    assert said.startswith(f"network.pretrained: '{path}' ")
    return said


@pytest.mark.parametrize(
    ("arguments", "flags", "said"),
    [
        ({"multiples": (2, 2)}, {}, "has 'conv_in.weight' of shape [32, 3, 3, 3], where the network needs [64, 3"),
        ({"multiples": (1, 1, 1, 1, 1, 1), "attended": (), "layers": 1}, {}, "halves images 5 times, which those of"),
        ({}, {"num_head_channels": 24}, "channels, which heads of 24 do not divide"),
        ({}, {"num_heads": 3}, "of 64 channels, which 3 heads do not divide"),
    ],
)
def test_networks_that_unet2dmodel_cannot_be(tmp_path, arguments, flags, said):
    assert said in refused(saved(network(**arguments), tmp_path), **flags)


def test_more_or_less_than_the_architecture(tmp_path):
    path = saved(network(), tmp_path)
    state = torch.load(path)
    for change, said in (
        ({"input_blocks.1.0.h_upd.weight": torch.ones(1)}, "holds 'input_blocks.1.0.h_upd.weight', for which"),
        ({"out.2.bias": torch.ones(5)}, "has 'conv_out.bias' of shape [5], where the network needs [6]"),
        ({"input_blocks.1.0.in_layers.0.weight": None}, "for which UNet2DModel has no place"),
        ({"middle_block.1.qkv.bias": None}, "lacks 'middle_block.1.qkv.bias'"),
        ({"middle_block.1.qkv.bias": torch.ones(80)}, "with 80 rows; needed are 64 each for q, k and v"),
        ({"time_embed.2.weight": None}, "lacks 'time_embedding.linear_2.weight'"),
        ({"output_blocks.2.2.conv.weight": None}, "for which UNet2DModel has no place"),
        ({"output_blocks.0.0.in_layers.2.weight": None}, "holds no U-Net of improved-diffusion or guided-diffusion"),
    ):
        altered = {name: value for name, value in (state | change).items() if value is not None}
        torch.save(altered, path)
        assert said in refused(path)


def test_files_that_are_no_checkpoints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("model.pt")
    assert "is no file" in refused(path)
    torch.save(network().state_dict(), path)
    for content in (b"", b"not a checkpoint", bytes(1000), path.read_bytes()[:5000]):
        path.write_bytes(content)
        refused(path)
    path.write_bytes(pickle.dumps(Trap(Path("harmed")), protocol=2))
    assert "holds more than tensors" in refused(path)
    for saved_object, said in (
        ({"a": Trap(Path("harmed"))}, "holds more than tensors"),
        ({"state_dict": network().state_dict()}, "holds no tensors by name"),
        ([torch.ones(1)], "holds no tensors by name"),
        ({"conv.weight": torch.ones(1)}, "holds no U-Net"),
    ):
        torch.save(saved_object, path)
        assert said in refused(path)
    assert not Path("harmed").exists()
