"""Text-to-image pipelines: the same losses as by their own encoders and networks, asked by hand; LoRAs."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import diffusers_folders as tiny
import numpy as np
import pytest
import torch
from diffusers import (
    DiffusionPipeline,
    FluxPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
)
from one_line import refusal
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from unequal.evaluation.profiling import Draws, profile_noise
from unequal.profiler.measure import ProfileConfig, profile
from unequal.profiler.text_to_image import packed, places, unpacked

CPU = torch.device("cpu")
RUN = "from unequal.__main__ import main; main()"


def by_unet(pipe: Any, x_t: Tensor, t: int, text: str) -> Tensor:
    prompt = pipe.encode_prompt([text], CPU, 1, False)[0]
    return pipe.unet(x_t, t, prompt).sample


def by_xl(pipe: Any, x_t: Tensor, t: int, text: str) -> Tensor:
    prompt, _, pooled, _ = pipe.encode_prompt(text, device=CPU, do_classifier_free_guidance=False)
    sizes = pipe._get_add_time_ids((16, 16), (0, 0), (16, 16), prompt.dtype, tiny.BIG_CLIP)
    return pipe.unet(x_t, t, prompt, added_cond_kwargs={"text_embeds": pooled, "time_ids": sizes}).sample


def by_sd3(pipe: Any, x_t: Tensor, timestep: float, text: str) -> Tensor:
    prompt, _, pooled, _ = pipe.encode_prompt(text, text, text, device=CPU, do_classifier_free_guidance=False)
    return pipe.transformer(x_t, prompt, pooled, torch.tensor([timestep])).sample


def by_flux(pipe: Any, x_t: Tensor, timestep: float, text: str) -> Tensor:
    prompt, pooled, text_places = pipe.encode_prompt(text, text, device=CPU)
    answer = pipe.transformer(
        FluxPipeline._pack_latents(x_t, 1, 4, 8, 8),
        prompt,
        pooled,
        torch.tensor([timestep / 1000]),
        FluxPipeline._prepare_latent_image_ids(1, 4, 4, CPU, torch.float32),
        text_places,
        torch.tensor([1.0]),
    ).sample
    return FluxPipeline._unpack_latents(answer, 16, 16, 2)


KINDS = {"stable_diffusion": by_unet, "stable_diffusion_xl": by_xl, "stable_diffusion_3": by_sd3, "flux": by_flux}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("texts")
    for kind in KINDS:
        getattr(tiny, kind)(root / kind)
    tiny.write_captions(tiny.write_images(root / "train", 5, size=16, channels=3))
    return root


def config(root: Path, kind: str, out: Path, **changes: Any) -> ProfileConfig:
    asked = {"draws": 3, "timesteps": 3, "batch_size": 1, "resolution": 16} | changes
    return ProfileConfig(asked.pop("model", str(root / kind)), root / "train", None, out, CPU, **asked)


@pytest.fixture
def said(root, tmp_path):
    """The line that a profile ends with; nothing has been computed unless it has begun."""

    def refused(kind: str = "stable_diffusion", begun: bool = False, **changes: Any) -> str:
        line = refusal(profile, config(root, kind, tmp_path / "out", **changes))
        assert line.isprintable() and (tmp_path / "out").exists() == begun
        return line

    return refused


#: One of a U-Net, one of a transformer with a shift; the others differ in how they read texts.
OFTEN = {"stable_diffusion", "flux"}


@pytest.mark.parametrize(
    "kind", [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.thorough) for kind in KINDS]
)
def test_the_losses_are_those_of_the_pipeline_asked_by_hand(root, tmp_path, kind):
    found = profile(config(root, kind, tmp_path))
    schedule, k, draw = found.document.noise_schedule, 1, 2
    if kind == "flux":  # 16 tokens, between 4 with μ = 0.5 and 64 with μ = 1.15
        assert found.document.schedule.shift == pytest.approx(np.exp(0.5 + 0.65 * 12 / 60))
    t = found.document.timesteps[k]
    image = int(Draws.of(torch.empty(5, 0), schedule.timesteps, 3, 0, CPU).index[t, draw])
    pixels = torch.from_numpy(np.asarray(Image.open(root / "train" / f"{image:02}.png")).copy())
    epsilon = profile_noise((4, 8, 8), np.array([t]), np.array([draw]), 0, 5)
    alpha, sigma = schedule.level(t)
    pipe = DiffusionPipeline.from_pretrained(root / kind)
    with torch.no_grad():
        x0 = pipe.vae.encode(pixels.permute(2, 0, 1)[None] / 127.5 - 1).latent_dist.mean
        x0 = (x0 - 0.1) * 0.5
        x_t = alpha * x0 + sigma * epsilon
        timestep = 1000 * sigma if found.document.prediction == "velocity" else t
        answer = KINDS[kind](pipe, x_t, timestep, f"a picture number {image}")
    guesses = {"epsilon": answer, "v_prediction": alpha * answer + sigma * x_t, "velocity": x_t + alpha * answer}
    guess = guesses[found.document.prediction]
    assert np.isclose(found.model["train"][k, draw], float((epsilon - guess).square().mean()), rtol=1e-4)


@pytest.mark.parametrize(
    ("kind", "part"), [("stable_diffusion", "text_encoder"), ("stable_diffusion_3", "text_encoder_3")]
)
def test_a_text_encoder_without_a_weight_is_refused(root, tmp_path, said, kind, part):
    shutil.copytree(root / kind, tmp_path / kind)
    (file,) = (tmp_path / kind / part).glob("*.safetensors")
    weights = load_file(file)
    gone = max(name for name in weights if "norm" in name)
    save_file({name: weight for name, weight in weights.items() if name != gone}, file, metadata={"format": "pt"})
    line = said(kind, begun=True, model=str(tmp_path / kind))
    assert f"{kind}: {part} lacks 1 weights of its network: '" in line and line.endswith(f"{gone}'")


TRAP = "from pathlib import Path\nPath({!r}).touch()\nclass Evil: pass\nclass EvilPipeline: pass\n"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"unet": ["evil", "Evil"]}, "model_index.json: unet: 'evil'; allowed: diffusers, transformers"),
        ({"safety_checker": ["evil", "Evil"]}, "model_index.json: safety_checker: 'evil'; allowed: diffusers"),
        ({"scheduler": ["os", "system"]}, "model_index.json: scheduler: 'os'; allowed: diffusers, transformers"),
        ({"tokenizer": ["evil.evil", "Evil"]}, "model_index.json: tokenizer: 'evil.evil'; allowed"),
        ({"tokenizer": ["transformers", "\x1b[2J\nEvil"]}, r"tokenizer: no class '\x1b[2J Evil' in 'transformers'"),
        ({"_class_name": ["evil", "EvilPipeline"]}, "its model_index.json names no class of diffusers"),
    ],
)
def test_no_code_of_a_folder_is_run(root, tmp_path, said, changes, expected):
    folder, sprung = tmp_path / "model", tmp_path / "sprung"
    shutil.copytree(root / "stable_diffusion", folder)
    for place in (folder, *(part for part in folder.iterdir() if part.is_dir())):
        (place / "evil.py").write_text(TRAP.format(str(sprung)))
    reindex(folder / "model_index.json", changes)
    assert expected in said(begun="transformers" in str(changes), model=str(folder))
    assert not sprung.exists()


def reindex(file: Path, changes: dict[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.thorough
def test_a_safety_checker_of_diffusers_own_pipelines_is_left_out(root, tmp_path):
    """Stand-in for a part of Stable Diffusion 1 that no profile reads."""
    folder = shutil.copytree(root / "stable_diffusion", tmp_path / "model")
    named = {"safety_checker": ["stable_diffusion", "StableDiffusionSafetyChecker"]}
    reindex(folder / "model_index.json", named)
    found = profile(config(root, "stable_diffusion", tmp_path / "out", model=str(folder)))
    assert np.isfinite(found.model["train"]).all()


def test_a_kernel_that_a_text_encoder_names_is_refused(root, tmp_path, said):
    folder = shutil.copytree(root / "stable_diffusion", tmp_path / "model")
    reindex(folder / "text_encoder/config.json", {"attn_implementation": "nobody/a-kernel"})
    line = said(begun=True, model=str(folder))
    assert "attn_implementation: nobody/a-kernel names code on the Hub, which is not run" in line


def test_captions_come_from_texts_or_a_list_and_are_missed_where_there_are_none(root, tmp_path):
    asked = config(root, "stable_diffusion", tmp_path / "out")
    first = profile(asked).model["train"]
    folder = tiny.write_images(tmp_path / "listed", 5, size=16, channels=3)
    asked = replace(asked, train=folder)
    assert "captions missing of 5 of 5 images (00.png, 01.png, 02.png, …)" in refusal(profile, asked)
    lines = [{"file_name": f"{n:02}.png", "text": f"a picture number {n}"} for n in range(5)]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert np.array_equal(profile(asked).model["train"], first)
    (folder / "00.txt").write_text("another one")
    assert not np.array_equal(profile(asked).model["train"], first)
    for line in ("[1]", '{"file_name": "00.png", "text": null}'):
        (folder / "metadata.jsonl").write_text(line)
        assert "line 1 is no JSON object" in refusal(profile, asked)


@pytest.mark.thorough
def test_sd3_does_without_its_largest_text_encoder(tmp_path, root):
    tiny.stable_diffusion_3(tmp_path / "small", with_t5=False)
    found = profile(config(root, "stable_diffusion_3", tmp_path / "out", model=str(tmp_path / "small")))
    assert found.document.losses["train"].mean[0] > 0


def test_patches_are_those_of_the_pipeline():
    latents = torch.randn(2, 4, 6, 8)
    assert torch.equal(packed(latents), FluxPipeline._pack_latents(latents, 2, 4, 6, 8))
    assert torch.equal(unpacked(packed(latents), 6, 8), latents)
    assert torch.equal(places(3, 4).float(), FluxPipeline._prepare_latent_image_ids(1, 3, 4, CPU, torch.float32))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "part", "pipeline"),
    [("stable_diffusion", "unet", StableDiffusionPipeline), ("flux", "transformer", FluxPipeline)],
)
def test_a_lora_is_paired_and_the_same_as_its_weights_added(root, tmp_path, kind, part, pipeline):
    pipe = DiffusionPipeline.from_pretrained(root / kind)
    net = getattr(pipe, part)
    net.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules=["to_q", "to_v"]))
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if "lora" in name:
                parameter.normal_(std=0.5)
    pipeline.save_lora_weights(tmp_path / "lora", **{f"{part}_lora_layers": get_peft_model_state_dict(net)})
    asked = config(root, kind, tmp_path / "out")
    found = profile(replace(asked, lora=tmp_path / "lora"))
    assert found.other is not None and found.document.compared is not None
    assert np.array_equal(found.model["train"], profile(replace(asked, out=tmp_path / "alone")).model["train"])
    assert not np.allclose(found.other["train"], found.model["train"], rtol=1e-3)
    net.fuse_lora()
    net.unload_lora()
    pipe.save_pretrained(tmp_path / "fused")
    fused = profile(replace(asked, model=str(tmp_path / "fused"), out=tmp_path / "out_fused"))
    assert np.allclose(fused.model["train"], found.other["train"], rtol=1e-3)


def test_what_is_no_lora_is_refused(tmp_path, said):
    assert "no such file" in said(lora=tmp_path / "nowhere")
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")
    assert "--lora" in said(lora=tmp_path / "bad.safetensors")


def test_a_lora_of_another_network_is_refused(root, tmp_path, said, capfd):
    net = DiffusionPipeline.from_pretrained(root / "stable_diffusion_xl").unet
    net.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k"]))
    StableDiffusionXLPipeline.save_lora_weights(tmp_path / "wide", unet_lora_layers=get_peft_model_state_dict(net))
    pair = {"lora_A.weight": torch.ones(2, 16), "lora_B.weight": torch.ones(16, 2)}
    block = "attentions.0.transformer_blocks.0.attn1.to_q"
    layers = (f"unet.down_blocks.1.{block}", f"unet.down_blocks.7.{block}")
    tensors = {f"{layer}.{name}": one.clone() for layer in layers for name, one in pair.items()}
    save_file(tensors, tmp_path / "far.safetensors")
    capfd.readouterr()
    assert "size mismatch" in said(lora=tmp_path / "wide")
    assert "1 of its 2 layers are none of the UNet2D" in said(lora=tmp_path / "far.safetensors")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("part", ["unet", "text_encoder"])
def test_weights_that_would_have_to_be_unpickled_are_refused(root, tmp_path, said, part):
    model = shutil.copytree(root / "stable_diffusion", tmp_path / part)
    for file in (model / part).glob("*.safetensors"):
        file.rename(file.with_suffix(".bin"))
    assert f"{part} has no weights in safetensors" in said(model=str(model))


@pytest.mark.thorough
def test_losses_that_a_shift_leaves_at_zero_are_refused(root, tmp_path):
    """With 4096 tokens, where the tiny pipeline has 64 at most, k = exp(44.8): α² is below the precision of float32."""
    asked = config(root, "flux", tmp_path / "out", resolution=256, draws=2, timesteps=2)
    assert "all errors of ε at t = 0 are 0" in refusal(profile, asked)


@pytest.mark.parametrize(
    ("kind", "resolution", "why"),
    [
        ("stable_diffusion_3", 18, "not a multiple of 4, as the SD3Transformer2DModel needs"),
        ("stable_diffusion_3", 4096, "knows places of up to"),
    ],
)
def test_sizes_that_a_transformer_cannot_answer_are_refused(said, kind, resolution, why):
    line = said(kind, resolution=resolution)
    assert f"--resolution {resolution}: " in line and why in line


@pytest.mark.slow
@pytest.mark.thorough
def test_warnings_of_libraries_are_not_printed(root, tmp_path):
    """Without torchvision image processors warn, of which none is needed."""
    program = [sys.executable, "-c", "import sys; sys.modules['torchvision'] = None; " + RUN]
    program += ["profile", str(root / "stable_diffusion"), "--train", str(root / "train"), "--out", str(tmp_path)]
    asked = ["--draws", "2", "--timesteps", "2", "--resolution", "16", "--device", "cpu"]
    ended = subprocess.run([*program, *asked], capture_output=True, text=True, check=False, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")
