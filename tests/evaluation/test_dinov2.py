"""DINOv2's features against a transformer of their own, and what is scored by them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dinov2_folders import FEATURES, write_dinov2
from one_line import refusal
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from unequal import errors
from unequal.errors import MissingExtra
from unequal.evaluation.dinov2 import CONFIG, TENSORS, dinov2_of, resized
from unequal.evaluation.features import features_of
from unequal.evaluation.fidelity import DINOV2, FACTS, BuiltExtractor, network_of
from unequal.runtime.files import content_hash, read_json, write_json

CPU = torch.device("cpu")
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
HEADS = 2


def pictures(count: int, seed: int, channels: int = 3, size: int = 32, brightest: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, brightest, (count, channels, size, size), dtype=np.uint8)


def brought(images: np.ndarray) -> Tensor:
    pixels = torch.from_numpy(images).float() / 255
    pixels = functional.interpolate(pixels, size=(224, 224), mode="bicubic", antialias=True)
    return torch.stack([(pixels[:, i] - MEAN[i]) / DEVIATION[i] for i in range(3)], dim=1)


def positions(learned: Tensor) -> Tensor:
    side = round((learned.shape[1] - 1) ** 0.5)
    grid = learned[:, 1:].reshape(1, side, side, -1).permute(0, 3, 1, 2)
    if side != 16:
        grid = functional.interpolate(grid, scale_factor=(16.1 / side, 16.1 / side), mode="bicubic")
    return torch.cat([learned[:, :1], grid.permute(0, 2, 3, 1).reshape(1, 256, -1)], dim=1)


def transformer(weights: dict[str, Tensor], images: Tensor) -> Tensor:
    """The class token [B, F] of normalised images, by the names that weights have in published files."""

    def linear(x: Tensor, name: str) -> Tensor:
        return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x: Tensor, name: str) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-6)

    name = "embeddings.patch_embeddings.projection"
    patches = functional.conv2d(images, weights[f"{name}.weight"], weights[f"{name}.bias"], stride=14)
    token = weights["embeddings.cls_token"].expand(len(images), -1, -1)
    tokens = torch.cat([token, patches.flatten(2).transpose(1, 2)], dim=1)
    tokens = tokens + positions(weights["embeddings.position_embeddings"])
    for block in ("encoder.layer.0", "encoder.layer.1"):
        x = norm(tokens, f"{block}.norm1")
        query, key, value = (
            linear(x, f"{block}.attention.attention.{part}").unflatten(2, (HEADS, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        shares = (query @ key.transpose(2, 3) / query.shape[3] ** 0.5).softmax(-1)
        x = linear((shares @ value).transpose(1, 2).flatten(2), f"{block}.attention.output.dense")
        tokens = tokens + x * weights[f"{block}.layer_scale1.lambda1"]
        x = functional.gelu(linear(norm(tokens, f"{block}.norm2"), f"{block}.mlp.fc1"))
        tokens = tokens + linear(x, f"{block}.mlp.fc2") * weights[f"{block}.layer_scale2.lambda1"]
    return norm(tokens, "layernorm")[:, 0]


@pytest.mark.parametrize(("image_size", "size"), [(28, 32), (224, 300), (518, 32)])
def test_features_are_the_class_token_of_a_transformer_that_sees_normalised_images(tmp_path, image_size, size):
    write_dinov2(tmp_path, image_size=image_size)
    net, weights, images = dinov2_of(tmp_path, "here"), load_file(tmp_path / TENSORS), pictures(3, 0, size=size)
    found = net(torch.from_numpy(images))
    assert found.shape == (3, FEATURES)
    torch.testing.assert_close(found, transformer(weights, brought(images)), atol=2e-4, rtol=1e-4)
    # Where patches lie shows little in the class token.
    expected = positions(weights["embeddings.position_embeddings"])
    torch.testing.assert_close(net.network.embeddings.position_embeddings.detach(), expected)


@pytest.mark.parametrize("size", [32, 500])
def test_images_come_to_it_as_pillow_makes_them_larger_or_smaller(size):
    """dgm-eval resizes by Pillow, which rounds to 8 bits twice, and cuts what these pale pictures do not have."""
    image = 96 + pictures(1, 0, size=size, brightest=64)[0]
    by_pillow = Image.fromarray(image.transpose(1, 2, 0)).resize((224, 224), Image.Resampling.BICUBIC)
    found = resized(torch.from_numpy(image)[None])[0] * torch.tensor(DEVIATION)[:, None, None]
    levels = 255 * (found + torch.tensor(MEAN)[:, None, None])
    assert np.abs(levels.numpy() - np.asarray(by_pillow).transpose(2, 0, 1)).max() < 1.5


def built(folder: Path, **changes: Any) -> BuiltExtractor:
    facts = {"kind": "dinov2", "features": FEATURES, "weights": DINOV2, "weights_sha256": content_hash(folder / DINOV2)}
    write_json(folder / FACTS, facts | changes)
    return BuiltExtractor.load(folder)


def test_grey_images_are_seen_in_three_channels(tmp_path):
    write_dinov2(tmp_path / DINOV2)
    extractor, grey = built(tmp_path), pictures(3, 0, channels=1)
    network = network_of(extractor, 32, CPU)
    expected = network(torch.from_numpy(grey.repeat(3, axis=1)))
    np.testing.assert_allclose(features_of(grey, network, extractor, CPU), expected, rtol=1e-5, atol=1e-5)


def test_weights_that_were_altered_are_refused(tmp_path):
    write_dinov2(tmp_path / DINOV2)
    extractor, config = built(tmp_path), tmp_path / DINOV2 / CONFIG
    write_json(config, read_json(config) | {"layer_norm_eps": 1.0})
    assert "dinov2: altered or cut short since the extractor was built" in refusal(BuiltExtractor.load, tmp_path)
    (config.parent / TENSORS).write_bytes(b"")
    said = refusal(network_of, extractor, 32, CPU)
    assert "dinov2 holds no Dinov2Model: " in said and "header" in said
    assert f"{FACTS}: weights 'None'; build the extractor again" in refusal(built, tmp_path, weights=None)


def test_no_kernel_that_a_folder_names_is_fetched(tmp_path):
    write_dinov2(tmp_path)
    config = read_json(tmp_path / CONFIG)
    write_json(tmp_path / CONFIG, config | {"attn_implementation": "nobody/a-kernel", "auto_map": {"AutoModel": "a.b"}})
    assert dinov2_of(tmp_path, "here").network.config._attn_implementation == "sdpa"


def test_transformers_is_missed_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    line = r"^unequal\.evaluation\.dinov2 needs what is not installed \(transformers\): pip install 'unequal\[profile\]"
    with pytest.raises(MissingExtra, match=line):
        dinov2_of(tmp_path, "here")
