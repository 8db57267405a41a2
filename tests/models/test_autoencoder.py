"""Autoencoders: what encoding and decoding are by the networks alone, what fits, what is found."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.autoencoders.vq_model import VQModel
from one_line import refusal
from pickles import Trap
from safetensors.torch import load_file, save_file
from specs import autoencoder_of

from unequal.data.prepared import tensor_of, to_model_range, to_uint8
from unequal.models.autoencoder import (
    Autoencoder,
    Net,
    build_autoencoder,
    check_origin,
    find_net,
    identity,
    latent_shape,
    load_autoencoder,
    loss_of,
    spread_of,
    take_over,
    train_autoencoder,
)
from unequal.settings.data import PretrainedAutoencoder

CPU = torch.device("cpu")
IMAGES = torch.randint(0, 256, (5, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


TINY: dict[str, Any] = {"block_out_channels": (8, 8), "norm_num_groups": 4, "latent_channels": 2, "scaling_factor": 0.5}
TINY |= {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
TINY |= {"mid_block_add_attention": False}


def kl(**changes: Any) -> AutoencoderKL:
    torch.manual_seed(0)
    return AutoencoderKL(**(TINY | {"sample_size": 8} | changes))


def vq(**changes: Any) -> VQModel:
    torch.manual_seed(0)
    return VQModel(**(TINY | {"num_vq_embeddings": 16} | changes))


@pytest.mark.parametrize(("shift", "batch_size"), [(None, 8), (0.25, 2)])
def test_latents_are_the_mean_of_the_posterior_shifted_and_scaled_and_decoding_undoes_both(shift, batch_size):
    net = kl(shift_factor=shift)
    autoencoder, z = Autoencoder(net, batch_size), torch.randn(5, 2, 4, 4, generator=torch.Generator().manual_seed(1))
    found, decoded = autoencoder.encode(IMAGES), autoencoder.decode((z - (shift or 0)) * 0.5)
    mean, _ = net.quant_conv(net.encoder(to_model_range(IMAGES))).chunk(2, dim=1)
    torch.testing.assert_close(found, (mean - (shift or 0)) * 0.5)
    assert found.shape == (5, *latent_shape(net, 8, 3, "it"))
    torch.testing.assert_close(decoded, net.decoder(net.post_quant_conv(z)))


@pytest.mark.parametrize("net", [kl(), vq()])
def test_layers_in_bf16_give_float32_within_its_precision(net):
    exact, rounded = Autoencoder(net, 8), Autoencoder(net, 8, "bf16")
    z = exact.encode(IMAGES)
    for whole, quick in [(z, rounded.encode(IMAGES)), (exact.decode(z), rounded.decode(z))]:
        assert quick.dtype == torch.float32
        # bf16 has 8 bits: an answer differs, by less than a few parts in 2⁸.
        assert 0 < float((quick - whole).abs().max()) < 2**-4 * float(whole.abs().max())


def test_codes_are_quantised_by_the_decoder_alone():
    """Diffusion works in continuous latents; what it makes of them is brought to the nearest codes."""
    net = vq()
    autoencoder = Autoencoder(net, 2)
    latents = autoencoder.encode(IMAGES)
    torch.testing.assert_close(latents, 0.5 * net.quant_conv(net.encoder(to_model_range(IMAGES))))
    codes = net.quantize(latents / 0.5)[0]
    assert not torch.allclose(codes, latents / 0.5)
    torch.testing.assert_close(autoencoder.decode(latents), net.decoder(net.post_quant_conv(codes)))
    assert latent_shape(vq(vq_embed_dim=3), 8, 3, "it") == (3, 4, 4)


def test_a_reconstruction_is_what_decoding_leaves_in_256_values():
    autoencoder = Autoencoder(kl(), 2)
    found = autoencoder.reconstruct(IMAGES)
    assert found.dtype == torch.uint8
    assert (found.int() - to_uint8(autoencoder.decode(autoencoder.encode(IMAGES))).int()).abs().max() <= 1


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_weights_that_are_no_numbers_are_refused(tmp_path, part):
    net = kl()
    with torch.no_grad():
        getattr(net, part).conv_out.bias[0] = float("nan")
    said = refusal(Autoencoder(net, 4).reconstruct, IMAGES)
    assert said.startswith("autoencoder: decoded images hold NaN or infinite values")
    net.save_pretrained(tmp_path)
    said = f"autoencoder: '{tmp_path}': weight '{part}.conv_out.bias' holds NaN"
    assert refusal(find_net, str(tmp_path)).startswith(said)


def test_decoding_costs_four_times_as_much_at_twice_the_width():
    autoencoder = Autoencoder(kl(), 2)
    small, large = (autoencoder.decoding_macs((2, side, side)) for side in (4, 8))
    assert large == 4 * small
    # Into two 8-channel convolutions of 3 × 3 alone, at 4 × 4 latent pixels, go 2 · 9 · 64 · 16.
    assert small > 2 * 9 * 64 * 16


@pytest.mark.parametrize(
    ("size", "channels", "complaint"),
    [
        (8, 1, "autoencoder: x is for images of 3 channels; the data have 1"),
        (9, 3, "autoencoder: x makes one latent pixel of 2 × 2; data.image_size 9 is no multiple of 2 with two latent"),
        (2, 3, "autoencoder: x makes one latent pixel of 2 × 2; data.image_size 2 is no multiple of 2 with two latent"),
    ],
)
def test_images_that_do_not_fit_are_refused_in_one_line(size, channels, complaint):
    assert refusal(latent_shape, kl(), size, channels, "x").startswith(complaint)


@pytest.mark.parametrize(("make", "below"), [(kl, ""), (kl, "vae"), (vq, "vqvae")])
def test_a_folder_of_an_autoencoder_or_of_a_pipeline(tmp_path, make, below):
    net = make()
    net.save_pretrained(tmp_path / below)
    found = find_net(str(tmp_path))
    assert type(found) is type(net)
    assert torch.equal(Autoencoder(found, 4).encode(IMAGES), Autoencoder(net, 4).encode(IMAGES))


def taken(folder: Path, **changes: Any) -> Net:
    facts = {"kind": "pretrained", "source": str(folder), "batch_size": 4, "precision": "auto"}
    return take_over(PretrainedAutoencoder(**(facts | {"latent_channels": 2, "factor": 2} | changes)), 8, 3)


@pytest.mark.parametrize(("chosen", "scale"), [(None, 0.5), (2.0, 2.0)])
def test_the_scale_is_the_configs_or_the_settings_and_stays_with_the_network(tmp_path, chosen, scale):
    vq().save_pretrained(tmp_path / "theirs")
    taken(tmp_path / "theirs", scaling_factor=chosen).save_pretrained(tmp_path / "ours")
    assert load_autoencoder(tmp_path / "ours", CPU, 3).scale == scale


def test_an_autoencoder_is_what_the_settings_say(tmp_path):
    kl().save_pretrained(tmp_path)
    for changes, given in (({"latent_channels": 4}, "4 and 2"), ({"factor": 4}, "2 and 4")):
        said = f"autoencoder: '{tmp_path}' has latent_channels: 2 and factor: 2; the settings say {given}"
        assert refusal(taken, tmp_path, **changes).startswith(said)


def test_of_an_old_file_of_weights_tensors_alone_are_read(tmp_path):
    net = vq()
    net.save_pretrained(tmp_path, safe_serialization=False)
    (file,) = tmp_path.glob("*.bin")
    assert torch.equal(Autoencoder(find_net(str(tmp_path)), 4).encode(IMAGES), Autoencoder(net, 4).encode(IMAGES))
    file.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    assert "holds no VQModel: " in refusal(find_net, str(tmp_path))
    assert not (tmp_path / "sprung").exists()


def configured(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], object]:
    def harm(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(change(json.loads(file.read_text()))))

    return harm


def rewritten(file: Path, change: Callable[[bytes], bytes]) -> None:
    file.write_bytes(change(file.read_bytes()))


def without_a_weight(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    del weights["decoder.conv_out.bias"]
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


WEIGHTS, KINDS = "diffusion_pytorch_model.safetensors", "allowed: AutoencoderKL or VQModel"
HARMS: dict[str, tuple[Callable[[Path], object], str]] = {
    "weights cut short": (lambda at: rewritten(at / WEIGHTS, lambda one: one[:200]), "holds no AutoencoderKL"),
    "a weight too few": (without_a_weight, "lacks 1 weights of its network: 'decoder.conv_out.bias'"),
    "no config": (lambda at: (at / "config.json").unlink(), "holds no AutoencoderKL"),
    "other shapes": (configured(lambda config: config | {"latent_channels": 7}), "holds no AutoencoderKL"),
    "words for numbers": (configured(lambda one: one | {"block_out_channels": "wide"}), "holds no AutoencoderKL"),
    "another kind": (configured(lambda _: {"_class_name": "UNet2DModel"}), KINDS),
    "a list of kinds": (configured(lambda _: {"_class_name": ["AutoencoderKL"]}), KINDS),
    "no settings": (configured(lambda _: []), "holds no AutoencoderKL"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_does_not_load_is_refused_in_one_line(tmp_path, harm):
    spoil, said = HARMS[harm]
    kl().save_pretrained(tmp_path)
    spoil(tmp_path)
    line = refusal(find_net, str(tmp_path))
    assert line.startswith(f"autoencoder: '{tmp_path}' ") and said in line


def test_a_model_belongs_to_one_autoencoder(tmp_path, make_record, tiny_net):
    kl().save_pretrained(tmp_path / "one")
    kl(scaling_factor=0.6).save_pretrained(tmp_path / "other")
    record = make_record(tiny_net(), autoencoder=identity(tmp_path / "one"))
    check_origin(record, tmp_path / "one")
    said = "other: not the autoencoder in whose latents 'tiny' works"
    assert said in refusal(check_origin, record, tmp_path / "other")
    assert load_autoencoder(tmp_path / "other", CPU, 3).scale == 0.6


def error(net: torch.nn.Module, images: np.ndarray) -> float:
    autoencoder = Autoencoder(net, 16)
    x = to_model_range(tensor_of(images))
    return float((autoencoder.decode(autoencoder.encode(tensor_of(images))) - x).square().mean())


def test_it_learns_and_sets_the_scale(prepared):
    chosen = autoencoder_of(images=640)
    net = build_autoencoder(chosen, 8, 1, seed=0)
    before = error(net, prepared.train)
    train_autoencoder(net, prepared.train, chosen, seed=0)
    assert error(net, prepared.train) < before / 2
    assert float(Autoencoder(net, 16).encode(tensor_of(prepared.train)).std()) == pytest.approx(1, abs=1e-4)


def test_the_loss_is_a_squared_error_a_pixel_and_a_divergence_a_latent_value():
    """KL(N(μ, σ²) ‖ N(0, 1)) = (μ² + σ² − 1 − ln σ²)/2."""
    net = build_autoencoder(autoencoder_of(images=16), 8, 1, seed=0)
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    posterior = net.encode(x).latent_dist
    kl = (posterior.mean.square() + posterior.var - 1 - posterior.logvar).mean() / 2
    losses = []
    for weight in (0.0, 2.0):
        torch.manual_seed(0)
        losses.append(float(loss_of(net, x, weight).detach()))
    assert losses[1] - losses[0] == pytest.approx(2 * float(kl.detach()), rel=1e-4)
    torch.manual_seed(0)
    again = net.decode(posterior.sample()).sample
    assert losses[0] == pytest.approx(float((again - x).square().mean().detach()))


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf")])
def test_latents_that_have_no_scale(value):
    said = f"autoencoder: its latents have a standard deviation of {0.0 if value == 0.5 else 'nan'}"
    assert refusal(spread_of, torch.full((2, 2, 4, 4), value)).startswith(said)
