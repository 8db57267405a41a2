"""Profiles of tiny pipelines, and what is refused."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers_folders as tiny
import numpy as np
import pytest
import torch
from one_line import refusal
from PIL import Image
from specs import spec_of

from unequal.evaluation.profiling import Draws
from unequal.evaluation.profiling import profile as own_profile
from unequal.models.denoiser import Denoiser
from unequal.profiler import measure
from unequal.profiler.document import Losses
from unequal.profiler.epsilon_errors import spread
from unequal.profiler.measure import CACHE, ProfileConfig, profile
from unequal.runtime.files import read_json, write_json

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    tiny.ddpm(root / "model")
    tiny.write_images(root / "train", 9)
    tiny.write_images(root / "held_out", 7, seed=1)
    return root


@pytest.fixture
def config(folders, tmp_path):
    return of_images(tmp_path, folders / "train", model=folders / "model", held_out=folders / "held_out")


def of_images(folder: Path, train: Path, model: Path | None = None, **changes: Any) -> ProfileConfig:
    asked = {"held_out": None, "out": folder / "out", "device": CPU, "draws": 5, "batch_size": 4} | changes
    return ProfileConfig(model=str(model or folder / "model"), train=train, **asked)


def test_a_unet_is_profiled_as_the_pipeline_profiles_its_own(folders, tmp_path):
    """On the named schedule of the pipeline, in batches that cross timesteps, with images out of files.

    Betas are diffusers' here, in float32, and the pipeline's in float64 there.
    """
    tiny.ddpm(tmp_path / "model", trained_betas=None, beta_schedule="squaredcos_cap_v2")
    found, spec = profile(of_images(tmp_path, folders / "train", seed=3)), spec_of(schedule="cosine", timesteps=24)
    images = np.stack([np.asarray(Image.open(file))[None] for file in sorted((folders / "train").glob("*.png"))])
    draws = Draws.of(torch.from_numpy(images), 24, 5, 3, CPU)
    own = own_profile(Denoiser.of(tiny.unet2d(), spec), draws, 4).epsilon
    np.testing.assert_allclose(found.model["train"], own, rtol=1e-4)
    assert found.document.losses["train"] == Losses.of(found.model["train"])


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


@pytest.mark.thorough
def test_spoiled_files_of_the_cache_are_made_again(config):
    first = profile(config).document
    files = [file for file in sorted((config.out / CACHE).rglob("*")) if file.is_file()]
    assert {file.suffix for file in files} == {".chunk", ".safetensors"}
    before = [file.read_bytes() for file in files]
    for file in files:
        flip_a_bit(file)
    assert profile(config).document == first
    assert [file.read_bytes() for file in files] == before


def caches(config: ProfileConfig) -> int:
    """Number of profiles that the cache distinguishes, after one more."""
    profile(config)
    return len(list((config.out / CACHE).iterdir()))


@pytest.mark.thorough
def test_the_cache_knows_code_and_weights_by_content(config, tmp_path, monkeypatch):
    """Weights of the same size and time, as copies have them, are others; results next to them change nothing."""
    model = shutil.copytree(config.model, tmp_path / "model")
    inside = replace(config, model=str(model), out=model / "profile")
    assert [caches(inside), caches(inside)] == [1, 1]
    (weights,) = (model / "unet").glob("*.safetensors")
    times = weights.stat()
    flip_a_bit(weights)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert caches(inside) == 2
    monkeypatch.setattr(measure, "code_hash", lambda *_: "edited")
    assert caches(inside) == 3
    said = refusal(profile, replace(inside, out=model / "unet/profile"))
    assert said.startswith("--out ") and "/unet/profile: inside the folder of " in said


def test_a_timestep_has_the_same_draws_whichever_others_are_asked(config):
    few, every = profile(replace(config, timesteps=4, batch_size=5)), profile(replace(config, batch_size=5))
    chosen = list(few.document.timesteps)
    assert chosen == spread(few.document.noise_schedule, 4).tolist()
    assert np.array_equal(few.model["train"], every.model["train"][chosen])


def test_a_model_against_itself_has_not_changed_and_against_another_it_has(config, tmp_path):
    same = profile(replace(config, against=config.model)).document.compared
    assert same is not None
    assert set(same.relative["held_out"]) == set(same.relative_stderr["held_out"]) == {0.0}
    other = tiny.ddpm(tmp_path / "other", seed=1)
    found = profile(replace(config, against=str(other)))
    compared, other_itself = found.document.compared, profile(replace(config, model=str(other)))
    assert compared is not None
    assert compared.losses == other_itself.document.losses
    expected = np.array(compared.losses["train"].mean) / found.document.losses["train"].mean - 1
    assert np.allclose(compared.relative["train"], expected)


def test_classes_are_the_numbers_of_subfolders(tmp_path):
    tiny.ddpm(tmp_path / "model", classes=3)
    for name in ("0", "2"):
        tiny.write_images(tmp_path / "train" / name, 4, seed=int(name))
    config = of_images(tmp_path, tmp_path / "train", draws=2, batch_size=3)
    first = profile(config).model["train"]
    (tmp_path / "train" / "2").rename(tmp_path / "train" / "1")
    assert not np.array_equal(first, profile(config).model["train"])
    (tmp_path / "train" / "1").rename(tmp_path / "train" / "7")
    assert "class 7; the model knows classes 0 … 2" in refusal(profile, config)


def test_a_transformer_gets_latents_and_classes_or_the_null_class(tmp_path):
    tiny.dit(tmp_path / "model")
    for name in ("cat", "dog", "owl"):
        tiny.write_images(tmp_path / "train" / name, 3, seed=len(name), size=16, channels=3)
    tiny.write_images(tmp_path / "flat", 9, size=20, channels=3)
    config = of_images(tmp_path, tmp_path / "train", draws=3, timesteps=3)
    assert "class 'cat' has no number that the model says; name the subfolders by the" in refusal(profile, config)
    write_json(tmp_path / "model/classes.json", {"0": "Dog", "1": "owl, bubo", "2": "big cat, cat"})
    scaled = shutil.copytree(tmp_path / "model", tmp_path / "scaled") / "vae/config.json"
    write_json(scaled, read_json(scaled) | {"latents_mean": [0.0] * 4})
    assert "its autoencoder has latents_mean; allowed" in refusal(
        profile, replace(config, model=str(tmp_path / "scaled"))
    )
    found = profile(config).document
    assert (found.family, found.shape, found.prediction) == ("DiTTransformer2DModel", (4, 8, 8), "epsilon")
    profile(replace(config, train=tmp_path / "flat"))
    (tmp_path / "train" / "cat" / "00.png").rename(tmp_path / "train" / "loose.png")
    tiny.write_images(tmp_path / "held_out" / "cat", 3, seed=8, size=16, channels=3)
    said = refusal(profile, replace(config, held_out=tmp_path / "held_out"))
    assert "in all folders; next to subfolders of " in said and said.endswith("train stands loose.png")


def test_what_cannot_be_profiled_is_refused_in_one_line(config, tmp_path):
    def said(**changed: object) -> str:
        return refusal(profile, replace(config, **changed))

    assert "no such folder" in said(model="nowhere")
    assert "no diffusion pipeline" in said(model=str(config.train))
    assert "nowhere: missing; needed: a folder of images" in said(train=tmp_path / "nowhere")
    assert "training images too" in said(held_out=config.train)
    assert "the schedule of" in said(timesteps=25)
    assert "--resolution 5: not a multiple of 2, as the UNet2DModel needs" in said(resolution=5)
    tiny.write_images(tmp_path / "broken", 3)
    (tmp_path / "broken" / "01.png").write_text("no image")
    assert "01.png: not a readable image" in said(train=tmp_path / "broken")
    other = tiny.ddpm(tmp_path / "cosine", trained_betas=None, beta_schedule="squaredcos_cap_v2")
    assert "its schedules differ" in said(against=str(other))
    assert "its classes differ" in said(against=str(tiny.ddpm(tmp_path / "classes", classes=3)))
    assert "takes no LoRA" in said(lora=config.train)
    weights = other / "unet" / "diffusion_pytorch_model.safetensors"
    os.truncate(weights, weights.stat().st_size - 1)
    assert "unet/diffusion_pytorch_model.safetensors: " in said(model=str(other))
    assert not config.out.exists()
    shutil.rmtree(other / "unet")
    assert "unet/config.json is missing" in said(model=str(other))


def test_why_the_hub_gives_nothing_is_said(config, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    said = refusal(profile, replace(config, model="no/where"))
    assert said.startswith("no/where: no such folder, and none from the Hub: ") and "offline" in said
