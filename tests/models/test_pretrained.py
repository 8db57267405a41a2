"""Networks from elsewhere are taken as they are; what does not fit the settings is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from diffusers import (
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    FlowMatchEulerDiscreteScheduler,
    PNDMScheduler,
    ScoreSdeVeScheduler,
)
from diffusers.models.unets.unet_2d import UNet2DModel
from huggingface_hub.errors import LocalEntryNotFoundError, RemoteEntryNotFoundError
from one_line import refusal
from openai_unet import OpenAIUNet
from params_files import edited
from specs import class_labels, low_resolution, spec_of
from tensors import equal

from unequal.diffusion.schedule import NoiseSchedule
from unequal.models.backbones.backbone import take_over
from unequal.models.backbones.unet2d.exchange import load_pretrained
from unequal.models.pretrained import check_pretrained
from unequal.models.spec import ModelSpec
from unequal.settings.network import OpenAIFlags, UNet2D
from unequal.settings.params import Params

Load = Callable
ENLARGING = low_resolution(4)
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def spec(network: UNet2D, size: int, channels: int, prediction: str = "epsilon", **changes: Any) -> ModelSpec:
    facts = {"condition": network.condition, "variance": network.variance}
    return spec_of(prediction, size=size, channels=channels, **facts, **changes)


def same_weights(one: UNet2DModel, other: UNet2DModel) -> bool:
    return equal(one.state_dict(), other.state_dict())


@pytest.fixture
def load(network_settings):
    def load(source: Path, size: int = 8, channels: int = 1, **changes: Any) -> UNet2DModel:
        network = network_settings(pretrained=str(source), **changes)
        return load_pretrained(network, spec(network, size, channels))

    return load


def test_pretrained_from_a_folder_of_a_model_or_a_pipeline(tmp_path, tiny_net, load):
    net = tiny_net()
    net.save_pretrained(tmp_path / "model")
    DDPMPipeline(net, DDPMScheduler()).save_pretrained(tmp_path / "pipeline")
    assert same_weights(load(tmp_path / "model"), net)
    assert same_weights(load(tmp_path / "pipeline"), net)


def test_dropout_is_that_of_the_settings(tmp_path, tiny_net, load):
    tiny_net(dropout=0.5).save_pretrained(tmp_path)
    for chosen in (0.0, 0.2):
        net, fresh = load(tmp_path, dropout=chosen), tiny_net(dropout=chosen)
        found, wanted = ([one.p for one in n.modules() if isinstance(one, torch.nn.Dropout)] for n in (net, fresh))
        assert found == wanted
        assert net.config["dropout"] == chosen
        assert same_weights(net, fresh)


@pytest.mark.parametrize(
    ("stored", "asked", "said"),
    [
        ({"condition": ENLARGING}, {"condition": ENLARGING}, None),
        ({"condition": ENLARGING}, {}, "2 channels in and 1 out"),
        ({"variance": "learned"}, {"variance": "learned"}, None),
        ({"variance": "learned"}, {}, "1 out with fixed variance"),
        ({}, {"size": 16}, "size 8 with 1 channels in and 1 out; the data have size 16 and 1 channels"),
        ({}, {"channels": 3}, "size 8 with 1 channels in and 1 out; the data have size 8 and 3 channels"),
    ],
)
def test_pretrained_for_other_images(tmp_path, tiny_net, load, stored, asked, said):
    net = tiny_net(**stored)
    net.save_pretrained(tmp_path)
    if said is None:
        assert same_weights(load(tmp_path, **asked), net)
    else:
        assert said in refusal(load, tmp_path, **asked)


def test_pretrained_that_is_not_there(tmp_path, load, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert refusal(load, tmp_path / "nothing").startswith(f"network.pretrained: {tmp_path}/nothing: missing")
    assert refusal(load, "someone/something").endswith("since what a branch or a tag names may change")
    assert "holds no UNet2DModel" in refusal(load, f"someone/something@{COMMIT}")
    (tmp_path / "empty").mkdir()
    assert "holds no UNet2DModel" in refusal(load, tmp_path / "empty")


def test_pretrained_weights_are_finite(tmp_path, tiny_net, load, take):
    net, theirs = tiny_net(), OpenAIUNet(layers=1, attended=())
    with torch.no_grad():
        net.conv_in.bias[0] = theirs.state_dict()["input_blocks.0.0.bias"][0] = torch.inf
    net.save_pretrained(tmp_path)
    torch.save(theirs.state_dict(), tmp_path / "model.pt")
    said = "weight 'conv_in.bias' holds NaN or infinite values; allowed: finite ones"
    assert refusal(load, tmp_path) == f"network.pretrained: '{tmp_path}': {said}"
    assert said in refusal(take, tmp_path / "model.pt", image=(16, 3), openai=FLAGS, variance="learned")


@pytest.fixture
def take(network_settings):
    def take(
        source: Any,
        schedule: str = "linear",
        timesteps: int = 1000,
        shift: float = 1.0,
        prediction: str = "epsilon",
        image: tuple[int, int] = (8, 1),
        **changes: Any,
    ) -> UNet2DModel:
        network, grid = network_settings(pretrained=str(source), **changes), {"timesteps": timesteps, "shift": shift}
        return take_over(network, spec(network, *image, prediction, schedule=schedule, **grid))

    return take


def pipeline(folder: Path, net: UNet2DModel, scheduler: Any) -> Path:
    net.save_pretrained(folder / "unet")
    scheduler.save_pretrained(folder / "scheduler")
    return folder


LINEAR = NoiseSchedule.linear(1000).betas.tolist()
FLOW = {"schedule": "flow", "shift": 3.0, "prediction": "velocity"}
AGREEING = [
    (PNDMScheduler(), {}),
    (DDPMScheduler(trained_betas=LINEAR), {}),
    (DDPMScheduler(beta_schedule="squaredcos_cap_v2"), {"schedule": "cosine"}),
    (
        DDPMScheduler(beta_schedule="scaled_linear", beta_start=0.0015, beta_end=0.0195, clip_sample=False),
        {"schedule": "scaled_linear"},
    ),
    (DDPMScheduler(prediction_type="v_prediction"), {"prediction": "v_prediction"}),
    (DDPMScheduler(variance_type="learned_range"), {"variance": "learned"}),
    (DDIMScheduler(), {"variance": "learned"}),
    (FlowMatchEulerDiscreteScheduler(shift=3.0), FLOW),
]


@pytest.mark.parametrize(("scheduler", "chosen"), AGREEING, ids=range(len(AGREEING)))
def test_a_pipeline_that_agrees(scheduler, chosen, tmp_path, tiny_net, take):
    net = tiny_net(variance=chosen.get("variance", "fixed"))
    assert same_weights(take(pipeline(tmp_path, net, scheduler), **chosen), net)


DISAGREEING = [
    (FlowMatchEulerDiscreteScheduler(), FLOW, "schedule.shift: 3.0, but {} was trained with 1.0"),
    (FlowMatchEulerDiscreteScheduler(), {}, "schedule.name: 'linear', but {} was trained with 'flow'"),
    (FlowMatchEulerDiscreteScheduler(shift=3.0), FLOW | {"prediction": "epsilon"}, "recipes.base.prediction: epsilon"),
    (
        FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        FLOW,
        "schedule: one shift for all images, but {} was trained with use_dynamic_shifting: true",
    ),
    (DDPMScheduler(), FLOW, "schedule.name: 'flow', but {} was trained with a DDPMScheduler; allowed for a flow: Flow"),
    (DDPMScheduler(), {"timesteps": 500}, "schedule.timesteps: 500, but {} was trained with 1000"),
    (DDPMScheduler(), {"schedule": "cosine"}, "schedule.name: cosine, betas 4.128e-05 … 0.999, but {} was trained"),
    (DDPMScheduler(prediction_type="sample"), {}, "recipes.base.prediction: epsilon, but {} was trained with sample"),
    (DDPMScheduler(variance_type="learned_range"), {}, "network.variance: fixed, but {} was trained with"),
    (DDPMScheduler(), {"variance": "learned"}, "network.variance: learned, but {} was trained with variance_type"),
    (DDPMScheduler(clip_sample_range=2.0), {}, "sampling.clip: to [-1, 1] or not at all, but {} was trained with clip"),
    (ScoreSdeVeScheduler(), {}, "{} belongs to a ScoreSdeVeScheduler, which has no betas; allowed: DDPM's kind"),
]


@pytest.mark.parametrize(("scheduler", "chosen", "said"), DISAGREEING, ids=range(len(DISAGREEING)))
def test_a_pipeline_that_disagrees(scheduler, chosen, said, tmp_path, tiny_net, take):
    folder = pipeline(tmp_path, tiny_net(variance=chosen.get("variance", "fixed")), scheduler)
    expected = said.format(f"network.pretrained '{folder}'").replace(
        f"network.pretrained '{folder}' belongs", f"network.pretrained: '{folder}' belongs"
    )
    assert refusal(take, folder, **chosen).startswith(expected)


def test_a_scheduler_beside_the_model_is_read_too(tmp_path, tiny_net, take):
    tiny_net().save_pretrained(tmp_path)
    assert same_weights(take(tmp_path, timesteps=77), tiny_net())  # a network alone says nothing of its schedule
    DDPMScheduler().save_pretrained(tmp_path)
    assert "was trained with 1000" in refusal(take, tmp_path, timesteps=77)


@pytest.mark.parametrize("content", ["[]", "{", json.dumps({"beta_schedule": "steps"})])
def test_a_scheduler_that_cannot_be_read(content, tmp_path, tiny_net, take):
    tiny_net().save_pretrained(tmp_path)
    (tmp_path / "scheduler_config.json").write_text(content)
    assert str(tmp_path) in refusal(take, tmp_path)


def test_a_scheduler_on_the_hub(tmp_path, tiny_net, take, monkeypatch):
    folder = pipeline(tmp_path, tiny_net(), DDPMScheduler())

    def download(repository: str, name: str, revision: str) -> str:
        assert (repository, revision) == ("someone/something", COMMIT)
        if not (folder / name).exists():
            raise RemoteEntryNotFoundError("no such file", response=SimpleNamespace(headers={}, request=None))
        return str(folder / name)

    def config(source: str, subfolder: str | None, revision: str) -> dict[str, Any]:
        assert (source, revision) == ("someone/something", COMMIT)
        return {"_class_name": "UNet2DModel"}

    def network(source: str, subfolder: str | None, revision: str, **_: Any) -> tuple[UNet2DModel, dict[str, Any]]:
        assert (source, revision) == ("someone/something", COMMIT)
        return tiny_net(), {"missing_keys": []}

    monkeypatch.setattr(UNet2DModel, "load_config", config)
    monkeypatch.setattr(UNet2DModel, "from_pretrained", network)
    monkeypatch.setattr("unequal.models.backbones.schedulers.hf_hub_download", download)
    assert same_weights(take(f"someone/something@{COMMIT}"), tiny_net())
    assert "was trained with 1000" in refusal(take, f"someone/something@{COMMIT}", timesteps=77)

    def unreachable(repository: str, name: str, revision: str) -> str:
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr("unequal.models.backbones.schedulers.hf_hub_download", unreachable)
    assert "scheduler_config.json cannot be reached on the Hub" in refusal(take, f"someone/something@{COMMIT}")


def test_networks_that_take_more_than_timesteps(tmp_path, load):
    small: dict[str, Any] = {"sample_size": 8, "in_channels": 1, "out_channels": 1, "block_out_channels": (8, 16)}
    small |= {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2, "norm_num_groups": 4}
    UNet2DModel(**small, num_class_embeds=10).save_pretrained(tmp_path / "classes")
    source = tmp_path / "classes"
    said = f"network.condition.classes: none, but network.pretrained '{source}' takes 10 classes"
    assert refusal(load, source) == said
    assert refusal(load, source, condition=class_labels(9)).endswith("takes 10 classes")
    assert same_weights(load(source, condition=class_labels(10)), UNet2DModel.from_pretrained(source))
    UNet2DModel(**small).save_pretrained(tmp_path / "none")
    assert refusal(load, tmp_path / "none", condition=class_labels(9)).endswith("takes no classes")
    for number, size in enumerate((None, [8, 8], (8, 8))):
        UNet2DModel(**small | {"sample_size": size}).save_pretrained(tmp_path / f"size_{number}")
        assert load(tmp_path / f"size_{number}").config["sample_size"] == 8
    UNet2DModel(**small | {"sample_size": [8, 16]}).save_pretrained(tmp_path / "wide")
    assert "is for images of size [8, 16] with 1 channels in" in refusal(load, tmp_path / "wide")
    UNet2DModel(**small, class_embed_type="timestep").save_pretrained(tmp_path / "numbers")
    assert "takes classes as numbers or vectors (class_embed_type 'timestep')" in refusal(load, tmp_path / "numbers")
    UNet2DModel(**small, time_embedding_type="fourier").save_pretrained(tmp_path / "noise")
    assert "takes noise levels" in refusal(load, tmp_path / "noise")


def openai(folder: Path, **changes: Any) -> Path:
    torch.manual_seed(0)
    torch.save(OpenAIUNet(layers=1, attended=(), **changes).state_dict(), folder / "model.pt")
    return folder / "model.pt"


FLAGS = OpenAIFlags(num_heads=1)
UNSCALED = OpenAIFlags(num_heads=1, rescale_timesteps=False)


def test_a_checkpoint_of_openai(tmp_path, take):
    source = openai(tmp_path)
    net = take(source, image=(16, 3), openai=FLAGS, variance="learned", dropout=0.2)
    assert (net.config["sample_size"], net.config["out_channels"], net.config["dropout"]) == (16, 6, 0.2)
    again = take(source, "cosine", 4000, prediction="sample", image=(16, 3), openai=UNSCALED, variance="learned")
    assert same_weights(again, net)


def test_a_checkpoint_of_openai_that_does_not_fit(tmp_path, take):
    source = openai(tmp_path)
    learned = {"image": (16, 3), "openai": FLAGS, "variance": "learned"}
    assert "3 out with fixed variance" in refusal(take, source, image=(16, 3), openai=FLAGS)
    assert "the data have size 16 and 1 channels" in refusal(take, source, **(learned | {"image": (16, 1)}))
    assert refusal(take, source, timesteps=4000, **learned).startswith("schedule.timesteps: 4000; with rescale_time")
    said = refusal(take, source, prediction="v_prediction", **learned)
    assert said.startswith("recipes.base.prediction: v_prediction; network.pretrained")
    assert said.endswith("one of OpenAI's networks, which predict epsilon or sample")
    assert "takes 5 classes" in refusal(take, openai(tmp_path, classes=5), **learned)


def test_another_schedule_is_refused_before_anything_runs(tmp_path):
    DDPMScheduler(50).save_pretrained(tmp_path / "model")
    pretrained = {"network.pretrained": str(tmp_path / "model")}
    params = Params.read(edited(Path(__file__).parents[2] / "presets/digits.yaml", pretrained, tmp_path))
    said = f"schedule.timesteps: 1000, but network.pretrained '{tmp_path / 'model'}' was trained with 50"
    assert refusal(check_pretrained, params) == said
    DDPMScheduler(1000).save_pretrained(tmp_path / "model")
    check_pretrained(params)
