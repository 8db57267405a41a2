"""Oracle and injected errors in ranges of timesteps against closed forms; hue and the page's table."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from diffusers.models.unets.unet_2d import UNet2DModel
from specs import labelled_low_resolution, low_resolution
from stage_project import write_params
from torch import Tensor

from studies.contribution import measure_model
from studies.contribution.measure_ranges import Ranges, Settings, changed_samples, chroma, hue_deviation, main, quality
from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.models.folder import ModelRecord, save_model
from unequal.runtime.files import write_json

SCHEDULE = NoiseSchedule.named("cosine", 20)
SHAPE = (2, 3, 4, 4)
SAMPLING = {"steps": 3, "solver": "dpm_solver_2m", "spacing": "edm", "eta": 0.0, "clip": True, "batch_size": 4}


def drawn(seed: int) -> Tensor:
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


def test_changes_reach_the_image_by_the_posterior_s_coefficients() -> None:
    """A model that answers x_t itself passes on what a range has left; every step is linear and known."""

    def predict(x_t: Tensor, t: int) -> Tensor:
        return x_t

    truth, start = drawn(2).clamp(-1, 1), drawn(3)
    unchanged, oracle, error = changed_samples(
        predict,
        truth,
        torch.ones(SHAPE),
        start,
        lambda step: torch.zeros(SHAPE),
        SCHEDULE,
        Ranges(images=2, samples=2, ranges=((2, 20),), injected=1.0).of(20),
    )
    found = posterior(SCHEDULE)
    x = x_error = start.double()
    plain = start.double()
    for t in range(19, -1, -1):
        from_x0, from_x_t = float(found.x0[t]), float(found.x_t[t])
        plain = (from_x0 + from_x_t) * plain
        x = from_x0 * (truth.double() if t else x) + from_x_t * x
        x_error = from_x0 * (x_error + (1.0 if t else 0.0)) + from_x_t * x_error
    for one, known in ((unchanged, plain), (oracle, x), (error, x_error)):
        torch.testing.assert_close(one.double(), known, atol=1e-4, rtol=1e-4)


def turned(image: Tensor, degrees: float) -> Tensor:
    """An image whose colours are rotated by an angle around the grey axis."""
    a, b = chroma(image)
    grey, angle = image.double().mean(1), math.radians(degrees)
    a, b = a * math.cos(angle) - b * math.sin(angle), a * math.sin(angle) + b * math.cos(angle)
    red = grey + 2 / 3 * a
    green = grey - a / 3 + b / math.sqrt(3)
    return torch.stack([red, green, 3 * grey - red - green], dim=1)


@pytest.mark.parametrize("degrees", [0.0, 10.0, -60.0, 170.0])
def test_hue_deviates_by_the_angle_that_colours_are_turned(degrees: float) -> None:
    truth = drawn(4)
    found = hue_deviation(turned(truth, degrees), truth)
    assert found.tolist() == pytest.approx([abs(degrees)] * 2, abs=1e-6)
    # Neither brightness nor saturation is a hue.
    assert hue_deviation(0.5 * truth + 0.2, truth).tolist() == pytest.approx([0, 0], abs=1e-5)


def test_quality_of_a_shifted_image() -> None:
    found = quality(drawn(5) + 0.1, drawn(5))
    assert found["colour_shift"] == pytest.approx(12.75, rel=1e-5)
    assert found["psnr"] == pytest.approx(20 * math.log10(255 / 12.75), rel=1e-5)


@pytest.mark.parametrize("pair", [(1, 1), (5, 4), (3, 21)])
def test_ranges_without_a_step_to_change_are_refused(pair: tuple[int, int]) -> None:
    with pytest.raises(UserError, match=r"study.ranges: \[.*\]; allowed: rising, from 2 to 20 at its end"):
        Ranges(images=2, samples=2, ranges=(pair,), injected=1.0).of(20)


def test_the_stage_measures_every_run_of_a_model(
    project: Path, tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> None:
    condition = low_resolution(2)
    net = tiny_net(channels=3, condition=condition)
    save_model(Path("artifacts/models/epsilon/block_3"), net, make_record(net, channels=3, condition=condition))
    plain = tiny_net(channels=3)
    save_model(Path("artifacts/models/plain/block_3"), plain, make_record(plain, channels=3))
    write_data(Path("artifacts/data"))
    write_params(
        seed=0, sampling=SAMPLING, study={"images": 2, "samples": 3, "ranges": [[1, 10], [25, 50]], "injected": 8.0}
    )
    result = CliRunner().invoke(main, ["--arm", "epsilon", "--block", "3"])
    assert result.exit_code == 0, result.output
    runs = json.loads(Path("results/ranges/epsilon/block_3.json").read_text())["runs"]
    assert [(one["run"], one["range"]) for one in runs] == [
        *(("bilinear", None), ("mean", None), ("unchanged", None)),
        *(("oracle", [1, 10]), ("oracle", [25, 50]), ("error", [1, 10]), ("error", [25, 50])),
    ]
    # A fresh network is mended most by the truth next to the data, and has nothing to lose by an error.
    psnr = {(one["run"], str(one["range"])): one["psnr"] for one in runs}
    assert psnr["mean", "None"] > psnr["unchanged", "None"]  # noise averages out
    assert psnr["oracle", "[1, 10]"] > psnr["unchanged", "None"]
    for arguments, said in (
        (("--arm", "plain", "--block", "3"), "plain: an unconditional model; allowed: one of super-resolution"),
        (("--arm", "gone", "--block", "3"), "artifacts/models/gone/block_3"),
    ):
        refused = CliRunner().invoke(main, [*arguments])
        assert refused.exit_code and said in refused.output + str(refused.exception or "")


def test_a_trained_upsampler_of_classes_is_measured_by_the_study_s_settings(
    project: Path,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert Settings.read(measure_model.PARAMS).study.ranges[0] == (1, 500)
    study = {"images": 12, "samples": 3, "ranges": [[1, 10], [25, 50]], "injected": 8.0}
    write_params(seed=0, sampling=SAMPLING, study=study)
    monkeypatch.setattr(measure_model, "PARAMS", Path("params.yaml"))
    condition = labelled_low_resolution(2, 3)
    net = tiny_net(channels=3, condition=condition)
    save_model(Path("base"), net, make_record(net, channels=3, condition=condition))
    write_data(Path("artifacts/data"), labels=3)
    result = CliRunner().invoke(measure_model.main, ["base"])
    assert result.exit_code == 0, result.output
    found = json.loads(Path("results/ranges.json").read_text())
    # Bilinear enlargement, the mean of samples, one sample, and two ranges in two ways.
    assert (found["images"], len(found["runs"])) == (2, 7)
    assert all(math.isfinite(one["psnr"]) for one in found["runs"])
    assert "true x0 in [1, 10]: PSNR in dB" in result.output
    write_data(Path("plain"), labels=None)
    refused = CliRunner().invoke(measure_model.main, ["base", "--data", "plain"])
    assert refused.exit_code == 1 and "needs a low-resolution image and its label" in refused.output


def write_data(folder: Path, labels: int | None = None) -> None:
    """Six colour images of 8 × 8 pixels, of which three are held out, of so many classes in turn."""
    folder.mkdir(parents=True)
    np.save(folder / "images.npy", np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8))
    if labels is not None:
        np.save(folder / "labels.npy", np.arange(6) % labels)
    facts = {"n": 6, "shape": [3, 8, 8], "range": [0, 255], "source": "made-up", "labels": labels}
    write_json(folder / "facts.json", facts | {"sha256": "0" * 64, "split": {"train": [0, 3], "holdout": [3, 6]}})
