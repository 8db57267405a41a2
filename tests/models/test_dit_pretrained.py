"""Transformers from DiT, SiT and diffusers answer as they did there, and go to DiTPipeline; others are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel
from diffusers.pipelines.dit.pipeline_dit import DiTPipeline
from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler
from dit_reference import answer, checkpoint
from one_line import refusal
from specs import class_labels, dropped_labels, spec_of
from tensors import equal
from torch import Tensor

from unequal.cli.export import export
from unequal.diffusion.spacing import sampling_timesteps
from unequal.models.autoencoder import Autoencoder, identity
from unequal.models.backbones.backbone import Unexportable, backbone_of, load_pretrained, take_over
from unequal.models.denoiser import Denoiser
from unequal.models.folder import load_model, save_model
from unequal.models.spec import ModelSpec
from unequal.sampling.ensemble import Ensemble, Expert
from unequal.sampling.guidance import guided
from unequal.settings.evaluation import Guidance

BuildDiT = Callable
DiTSettings = Callable
LABELS = dropped_labels(5)
#: Sizes of the network in the tests' files: images of 4 channels and 8 × 8 pixels, in patches of 2.
SIZES: dict[str, Any] = {"depth": 2, "width": 16, "channels": 4, "answers": 8, "patch": 2, "side": 4, "rows": 6}


def latent_spec(**changes: Any) -> ModelSpec:
    return spec_of(**({"channels": 4, "timesteps": 1000, "condition": LABELS} | changes))


def asked() -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(3, 4, 8, 8, generator=torch.Generator().manual_seed(1))
    return x, torch.tensor([0, 300, 999]), torch.tensor([0, 4, 5])


def test_a_file_of_dit_answers_as_there(tmp_path, dit_settings):
    state, (x, t, y) = checkpoint(**SIZES), asked()
    torch.save(state, tmp_path / "dit.pt")
    expected = answer(state, x, t, y, heads=2, steps=128)
    for variance, channels in (("learned", 8), ("fixed", 4)):
        asks = {"trained_by": "dit", "condition": LABELS, "variance": variance}
        net = take_over(dit_settings(pretrained=str(tmp_path / "dit.pt"), **asks), latent_spec(variance=variance))
        found = net(x, t, y).sample
        assert found.shape[1] == channels
        assert torch.allclose(found.double(), expected[:, :channels], atol=1e-5)


def test_a_file_of_sit_answers_with_our_velocity(tmp_path, dit_settings, make_record):
    """SiT goes from noise at 0 to the data at 1, and answers x0 − ε; here 1000·s leads from the data to the noise."""
    state, (x, _, y) = checkpoint(**SIZES), asked()
    torch.save(state, tmp_path / "sit.pt")
    settings = dit_settings(pretrained=str(tmp_path / "sit.pt"), trained_by="sit", condition=LABELS)
    net = load_pretrained(settings, latent_spec())
    s = torch.tensor([0.001, 0.4, 1.0], dtype=torch.float64)
    expected = answer(state, x, 1 - s, y, heads=2, steps=128)[:, :4]
    found = net(x, 1000 * s, y).sample
    assert torch.allclose(found.double(), -expected, atol=1e-5)
    # Its scale of time is stored with it.
    save_model(tmp_path / "model", net, make_record(net, condition=LABELS, channels=4))
    again, _ = load_model(tmp_path / "model")
    assert torch.equal(again(x, 1000 * s, y).sample, found)


def diffusers_net(**changes: Any) -> DiTTransformer2DModel:
    torch.manual_seed(3)
    net = DiTTransformer2DModel(
        **{
            "num_attention_heads": 2, "attention_head_dim": 8, "in_channels": 4, "out_channels": 4, "num_layers": 2,
            "sample_size": 8, "patch_size": 2, "num_embeds_ada_norm": 5,
        } | changes
    )  # fmt: skip
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    first = net.transformer_blocks[0].norm1.emb.state_dict()
    for block in net.transformer_blocks[1:]:
        block.norm1.emb.load_state_dict(first)
    return net.eval()


@pytest.mark.parametrize("subfolder", ["", "transformer"])
def test_a_folder_of_diffusers_answers_as_there(tmp_path, dit_settings, subfolder):
    theirs, (x, t, y) = diffusers_net(), asked()
    theirs.save_pretrained(tmp_path / subfolder)
    net = take_over(dit_settings(pretrained=str(tmp_path), condition=LABELS), latent_spec())
    with torch.no_grad():
        assert torch.allclose(net(x, t, y).sample, theirs(x, timestep=t, class_labels=y).sample, atol=1e-5)


def without(name: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda state: {key: tensor for key, tensor in state.items() if key != name}


@pytest.mark.parametrize(
    ("changes", "spoil", "said"),
    [
        ({"width": 32}, dict, "has positions [16, 16], tokens and width; the settings make [16, 32]"),
        ({"depth": 1}, dict, "has 'blocks.1.adaLN_modulation.1.bias', for which the network has no"),
        ({"condition": class_labels(5)}, dict, "of shape [6, 16], where the network needs [5, 16]"),
        ({}, lambda one: one | {"pos_embed": one["pos_embed"] + 0.1}, "has other positions than sines and cosines"),
        ({}, lambda state: state | {"blocks.0.mlp.fc1.bias": torch.full((64,), torch.nan)}, "holds NaN or infinite"),
    ],
)
def test_files_of_other_networks(tmp_path, dit_settings, changes, spoil, said):
    torch.save(spoil(checkpoint(**SIZES)), tmp_path / "dit.pt")
    asks = {"pretrained": str(tmp_path / "dit.pt"), "trained_by": "dit", "condition": LABELS} | changes
    line = refusal(load_pretrained, dit_settings(**asks), latent_spec(condition=asks["condition"]))
    assert line.startswith("network.pretrained: '")
    assert said in line


@pytest.mark.parametrize(
    ("trained_by", "changes", "said"),
    [
        ("dit", {"schedule": "cosine"}, "schedule.name: cosine, but network.pretrained"),
        ("dit", {"timesteps": 50}, "schedule.timesteps: 50, but network.pretrained"),
        ("dit", {"prediction": "sample"}, "recipes.base.prediction: sample, but network.pretrained"),
        ("sit", {"schedule": "flow"}, "recipes.base.prediction: epsilon, but network.pretrained"),
        ("sit", {"prediction": "velocity"}, "schedule.name: linear, but network.pretrained"),
    ],
)
def test_settings_that_are_not_those_of_a_files_training(tmp_path, dit_settings, trained_by, changes, said):
    torch.save(checkpoint(**SIZES), tmp_path / "a.pt")
    settings = dit_settings(pretrained=str(tmp_path / "a.pt"), trained_by=trained_by, condition=LABELS)
    assert said in refusal(take_over, settings, latent_spec(**changes))


def test_a_flow_is_sampled_by_the_scheduler_of_diffusers_and_comes_back(tmp_path, tiny_dit, dit_settings, make_record):
    facts = {"channels": 4, "condition": LABELS, "schedule": "flow", "shift": 3.0, "timesteps": 1000}
    spec, net = spec_of("velocity", **facts), tiny_dit(channels=4, condition=LABELS).eval()
    backbone_of(net).export(net, spec, tmp_path / "taken")
    theirs = DiTTransformer2DModel.from_pretrained(tmp_path / "taken", subfolder="transformer")
    scheduler = FlowMatchEulerDiscreteScheduler.from_pretrained(tmp_path / "taken", subfolder="scheduler")
    chosen = sampling_timesteps(10, 1000)
    # Times before they are shifted: given a number of steps, the scheduler shifts its last time twice.
    scheduler.set_timesteps(sigmas=[(t + 0.5) / 1000 for t in chosen])
    start, labels = torch.randn(3, 4, 8, 8, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 4, 5])
    pictures = start
    with torch.no_grad():
        for t in scheduler.timesteps:
            answer = theirs(pictures, timestep=t.expand(3), class_labels=labels).sample
            pictures = scheduler.step(answer, t, pictures).prev_sample
    record = make_record(net, prediction="velocity", **facts)
    ours = Ensemble([Expert(Denoiser.of(net, spec), record)]).denoise(start, chosen, clip=False, condition=labels)
    assert (ours - start).abs().max() > 0.1
    torch.testing.assert_close(ours, pictures, atol=1e-4, rtol=1e-4)
    taken = dit_settings(pretrained=str(tmp_path / "taken"), condition=LABELS)
    assert equal(take_over(taken, spec).state_dict(), net.state_dict())


def test_folders_of_other_networks(tmp_path, dit_settings):
    def said(folder: Path, **changes: Any) -> str:
        asks = {"pretrained": str(folder), "condition": LABELS} | changes
        return refusal(load_pretrained, dit_settings(**asks), latent_spec())

    theirs = diffusers_net()
    theirs.save_pretrained(tmp_path / "a")
    assert "network.depth: 3, but network.pretrained" in said(tmp_path / "a", depth=3)
    assert "network.heads: 4, but network.pretrained" in said(tmp_path / "a", heads=4)
    torch.nn.init.normal_(theirs.transformer_blocks[1].norm1.emb.timestep_embedder.linear_1.weight)
    theirs.save_pretrained(tmp_path / "b")
    assert "embeds timestep and label differently in every block" in said(tmp_path / "b")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/config.json").write_text(json.dumps({"_class_name": "UNet2DModel"}))
    assert "is a UNet2DModel; allowed: DiTTransformer2DModel" in said(tmp_path / "c")
    (tmp_path / "d").mkdir()
    assert "holds no DiTTransformer2DModel: " in said(tmp_path / "d")


@pytest.fixture(scope="module")
def autoencoder(tmp_path_factory):
    torch.manual_seed(0)
    vae = AutoencoderKL(
        in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(8, 8), latent_channels=4, norm_num_groups=4,
        sample_size=16, scaling_factor=0.5,
    )  # fmt: skip
    vae.save_pretrained(folder := tmp_path_factory.mktemp("autoencoder"))
    return folder


@pytest.mark.slow
def test_diffusers_samples_the_same_pictures(project, tiny_dit, make_record, autoencoder):
    changes = {"channels": 4, "condition": dropped_labels(1000), "variance": "learned"}
    spec, net = latent_spec(**changes, autoencoder=identity(autoencoder)), tiny_dit(**changes).eval()
    record = make_record(net, **changes, timesteps=1000, autoencoder=identity(autoencoder))
    save_model(project / "artifacts/models/base", net, record)
    shutil.copytree(autoencoder, project / "artifacts/autoencoder")
    export("base", project / "pipeline")
    pipeline = DiTPipeline.from_pretrained(project / "pipeline")
    pipeline.set_progress_bar_config(disable=True)
    labels, start = [3, 998], torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(5))
    pictures = pipeline(
        labels, guidance_scale=2.5, num_inference_steps=5, generator=torch.Generator().manual_seed(5), output_type="np"
    ).images
    ours = guided(Ensemble([Expert(Denoiser.of(net, spec), record)]), Guidance(scale=2.5, channels=None))
    steps = [int(t) for t in pipeline.scheduler.timesteps]
    latents = ours.denoise(start, steps, clip=False, condition=torch.tensor(labels))
    # The scheduler's last step leads to the first level of noise, ours to none.
    vae = Autoencoder(pipeline.vae, 2)
    decoded = (vae.decode(latents) / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).numpy()
    assert pictures.std() > 0.05
    assert np.abs(decoded - pictures).max() < 1e-3


def test_what_the_pipeline_cannot_hold(tmp_path, tiny_dit, autoencoder):
    held = {"channels": 4, "condition": dropped_labels(1000), "autoencoder": "a", "timesteps": 1000}
    for changes, given, said in (
        ({"condition": dropped_labels(10)}, autoencoder, "a model of 10 classes, as DiTPipeline takes 1000 classes or"),
        ({"condition": class_labels(1000)}, autoencoder, "a model of 1000 classes, as DiTTransformer2DModel"),
        ({"autoencoder": None}, autoencoder, "a transformer of pixels"),
        ({}, None, "without the autoencoder that it was trained with"),
    ):
        facts = held | changes
        net = tiny_dit(channels=4, condition=facts["condition"])
        with pytest.raises(Unexportable, match=said):
            backbone_of(net).export(net, spec_of("sample", **facts), tmp_path / "a", given)
    assert not (tmp_path / "a").exists()
