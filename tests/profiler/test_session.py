"""Profiles from end to end: the pipeline's own figures, pairs, resumption, and bad input in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from diffusers import (
    DDIMPipeline,
    DDIMScheduler,
    DDPMScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
)
from PIL import Image
from specs import spec_of

from unequal.data.pixels import tensor_of
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.errors import UserError
from unequal.measures.loss_profile import LossProfile, relative_change, space_factor
from unequal.measures.profiling import Draws, profile
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.models.denoiser import Denoiser
from unequal.profiler import session
from unequal.profiler.command import main
from unequal.profiler.document import Timesteps
from unequal.profiler.measuring import spread
from unequal.profiler.schedule import trained_by

CPU, T, IMAGES, DRAWS = torch.device("cpu"), 50, 12, 4
BuildNet = Callable[..., UNet2DModel]
Profile = Callable[..., Result]


def pipeline(net: UNet2DModel, folder: Path, **changes: Any) -> Path:
    """A folder as diffusers writes it."""
    settings = {"num_train_timesteps": T, "trained_betas": NoiseSchedule.linear(T).betas.tolist()}
    DDIMPipeline(net, DDIMScheduler(**(settings | changes))).save_pretrained(folder)
    return folder


def pictures(folder: Path, count: int, seed: int) -> np.ndarray:
    """Grey images in a folder, and as an array [n, 1, 8, 8]."""
    folder.mkdir(parents=True)
    found = np.random.default_rng(seed).integers(0, 256, (count, 1, 8, 8), dtype=np.uint8)
    for number, image in enumerate(found):
        Image.fromarray(image[0]).save(folder / f"{number:03}.png")
    return found


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_net: BuildNet) -> Path:
    """A folder with two models, and images for training and held out."""
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        torch.nn.init.normal_((net := tiny_net()).conv_out.weight, generator=torch.Generator().manual_seed(seed))
        pipeline(net, tmp_path / f"model_{seed}")
    pictures(tmp_path / "train", IMAGES, 2)
    pictures(tmp_path / "held_out", IMAGES, 3)
    return tmp_path


def run(*arguments: str, images: bool = True) -> Result:
    """The command in this folder, on all timesteps."""
    told = ["--train", "train", "--held-out", "held_out"] if images else []
    fixed = ["--timesteps", str(T), "--draws", str(DRAWS), "--batch-size", "16", "--device", "cpu"]
    return CliRunner().invoke(main, ["profile", *told, *fixed, *arguments])


def read(place: Path) -> Timesteps:
    return Timesteps.read(place / "profile/timesteps.json")


def own_losses(folder: Path, images: np.ndarray) -> np.ndarray:
    """What the pipeline measures of the same network by the same settings, [T, n]."""
    net = UNet2DModel.from_pretrained(folder / "unet", use_safetensors=True)
    denoiser = Denoiser(net, spec_of(timesteps=T))
    return profile(denoiser, Draws.of(tensor_of(images), T, DRAWS, 0, CPU), 16).epsilon


def test_the_profile_is_the_pipelines_own_to_the_last_digit(place: Path) -> None:
    result = run("model_0", "--against", "model_1")
    assert result.exit_code == 0, result.output
    found = read(place)
    files = {split: sorted((place / split).iterdir()) for split in ("train", "held_out")}
    for split, names in files.items():
        images = np.stack([np.asarray(Image.open(name))[None] for name in names])
        one, other = (own_losses(place / f"model_{seed}", images) for seed in (0, 1))
        assert found.losses[split].mean == tuple(LossProfile.of(one).mean.tolist())
        assert found.losses[split].stderr == tuple(LossProfile.of(one).stderr.tolist())
        assert found.compared is not None
        pairs = [relative_change(a[None], b[None]) for a, b in zip(one, other, strict=True)]
        assert found.compared.relative[split] == tuple(change for change, _ in pairs)
        assert found.compared.relative_stderr[split] == tuple(error for _, error in pairs)
    assert found.images == {"train": IMAGES, "held_out": IMAGES}


def test_some_timesteps_are_measured_as_among_all(place: Path) -> None:
    assert run("model_0").exit_code == 0
    whole = read(place)
    settings = ["--timesteps", "7", "--draws", str(DRAWS), "--out", "few", "--device", "cpu"]
    assert CliRunner().invoke(main, ["profile", "model_0", "--train", "train", *settings]).exit_code == 0
    few = Timesteps.read(place / "few/timesteps.json")
    assert (len(few.timesteps), few.timesteps[0], few.timesteps[-1]) == (7, 0, T - 1)
    expected = [whole.losses["train"].mean[t] for t in few.timesteps]
    np.testing.assert_allclose(few.losses["train"].mean, expected, rtol=1e-5)


def test_a_profile_that_is_stopped_goes_on_to_the_same_bytes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("model_0").exit_code == 0
    whole = (place / "profile/timesteps.json").read_bytes()
    calls = iter(range(1000))

    def stopped(net: UNet2DModel, *arguments: Any, **named: Any) -> Any:
        if next(calls) == 20:
            raise KeyboardInterrupt
        return answer(net, *arguments, **named)

    answer = UNet2DModel.forward
    monkeypatch.setattr(UNet2DModel, "forward", stopped)
    assert run("model_0", "--out", "again").exit_code != 0
    assert not (place / "again/timesteps.json").exists()
    counted = 0

    def counting(net: UNet2DModel, *arguments: Any, **named: Any) -> Any:
        nonlocal counted
        counted += 1
        return answer(net, *arguments, **named)

    monkeypatch.setattr(UNet2DModel, "forward", counting)
    assert run("model_0", "--out", "again").exit_code == 0
    assert (place / "again/timesteps.json").read_bytes() == whole
    assert 0 < counted < 2 * T * DRAWS / 16 - 10


def test_the_page_says_that_nothing_is_held_out(place: Path) -> None:
    result = run("model_0", "--train", "train", images=False)
    assert result.exit_code == 0, result.output
    page = (place / "profile/profile.html").read_text(encoding="utf-8")
    assert "Nothing is held out" in page
    assert "held-out images" not in page
    assert "Losses in all spaces" in page


def test_the_page_tells_where_another_model_differs(place: Path) -> None:
    assert run("model_0", "--against", "model_1").exit_code == 0
    page = (place / "profile/profile.html").read_text(encoding="utf-8")
    assert "Where it learned and what it lost" in page
    assert page.count("<img") == 2


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere"], "nowhere: no such folder; allowed: one that is there, or owner/name@commit on the Hub"),
        (
            ["some/model"],
            "some/model: no such folder; on the Hub it needs a commit, some/model@ and",
        ),
        (["train"], "train: no diffusion model: neither unet/config.json nor transformer/config.json in it"),
        (["model_0", "--train", "nowhere"], "nowhere: missing; data.path must be a folder of images"),
        (["model_0", "--train", "model_0"], "model_0: no images in it; files that end in "),
        (["model_0", "--against", "odd"], "odd: trained by another schedule than model_0; allowed: the same"),
        (
            ["model_0", "--against", "large"],
            "large: sample_size 16, where model_0 has 8; allowed: the same",
        ),
        (["strange"], "strange/unet: a ConsistencyUNet, which cannot be profiled yet; allowed: UNet2DModel"),
    ],
)
def test_what_cannot_be_profiled_is_refused_in_a_line(
    place: Path, tiny_net: BuildNet, arguments: list[str], complaint: str
) -> None:
    pipeline(tiny_net(), place / "odd", trained_betas=NoiseSchedule.cosine(T).betas.tolist())
    (large := tiny_net()).register_to_config(sample_size=16)
    pipeline(large, place / "large")
    config = pipeline(tiny_net(), place / "strange") / "unet/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"_class_name": "ConsistencyUNet"}))
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {complaint}"), result.output
    assert result.output.count("\n") == 1
    assert not (place / "profile/timesteps.json").exists()


def test_cuda_is_asked_for_where_there_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(main, ["profile", "model_0", "--train", "train", "--device", "cuda"])
    assert (result.exit_code, result.output) == (
        1,
        "Error: --device cuda: PyTorch finds no CUDA here; allowed: cpu, auto\n",
    )


def test_a_file_that_is_no_image_is_named(place: Path) -> None:
    (place / "train/005.png").write_bytes(b"no image")
    result = run("model_0")
    assert result.exit_code == 1
    assert "train/005.png: not a readable image" in result.output
    assert result.output.count("\n") == 1


def test_weights_that_are_no_numbers(place: Path, tiny_net: BuildNet) -> None:
    net = tiny_net()
    torch.nn.init.constant_(net.conv_out.bias, float("nan"))
    pipeline(net, place / "spoiled")
    result = run("spoiled")
    assert "spoiled/unet: weight 'conv_out.bias' holds NaN or infinite values" in result.output


def test_schedules_are_what_schedulers_say(tmp_path: Path) -> None:
    def of(scheduler: Any) -> Any:
        scheduler.save_pretrained(tmp_path / "scheduler")
        return trained_by(tmp_path)

    found = of(DDPMScheduler(prediction_type="v_prediction"))
    assert found.prediction == "v_prediction"
    torch.testing.assert_close(found.schedule.tables().snr, NoiseSchedule.linear(1000).snr, rtol=1e-3, atol=0)
    scaled = of(EulerDiscreteScheduler(beta_schedule="scaled_linear", beta_start=0.0015, beta_end=0.0195))
    torch.testing.assert_close(scaled.schedule.tables().snr, NoiseSchedule.scaled_linear(1000).snr, rtol=1e-3, atol=0)
    flow = of(FlowMatchEulerDiscreteScheduler(shift=3.0))
    assert flow.prediction == "velocity"
    torch.testing.assert_close(flow.schedule.tables().snr, Flow(1000, 3.0).snr)
    with pytest.raises(UserError, match="rescale_betas_zero_snr: the last timestep has no signal"):
        of(DDPMScheduler(rescale_betas_zero_snr=True))
    with pytest.raises(UserError, match=r"no scheduler/scheduler_config\.json, which tells how the model was trained"):
        trained_by(tmp_path / "scheduler")


def test_measured_timesteps_are_close_where_losses_change_fast() -> None:
    schedule = NoiseSchedule.linear(1000)
    found = spread(schedule, 100)
    assert (found[0], found[-1]) == (0, 999)
    assert len(found) > 90
    assert list(found) == sorted(set(found))
    gaps = np.diff(found)
    assert gaps[:5].max() <= 3 < gaps[50]
    assert spread(schedule, 5000) == tuple(range(1000))


def test_errors_in_other_spaces_are_those_of_epsilon_times_a_factor(place: Path) -> None:
    assert run("model_0").exit_code == 0
    found = read(place)
    factor = space_factor("x0", found.noise_schedule)
    torch.testing.assert_close(torch.from_numpy(factor), 1 / found.noise_schedule.snr)
    assert session.DOCUMENT == "timesteps.json"
