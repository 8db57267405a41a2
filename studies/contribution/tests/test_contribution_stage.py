"""Replacing x0 in ranges of timesteps, as a stage: the same images and noise in every run, and honest figures."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from diffusers.models.unets.unet_2d import UNet2DModel
from specs import low_resolution
from stage_project import write_params

from studies.contribution.stages.contribution import main
from unequal.data.pixels import tensor_of, to_model_range, to_uint8
from unequal.data.prepared import PreparedData
from unequal.files import read_npz
from unequal.models.folder import ModelRecord, save_model
from unequal.randomness import Stream
from unequal.sampling.ensemble import Ensemble

pytestmark = pytest.mark.slow

T = 50
CHOSEN: dict[str, Any] = {
    "images": 5,
    "batch_size": 2,
    "shown": 3,
    "clip": True,
    "ranges": [[1, 25], [25, 50], [1, 50]],
    "windows": {"count": 3, "width": 10},
}
TABLES = ("psnr", "colour_shift", "low_psnr", "low_colour_shift", "samples", "low", "truth")


@pytest.fixture(autouse=True)
def model(
    project: Path,
    prepared: PreparedData,
    tiny_net: Callable[..., UNet2DModel],
    make_record: Callable[..., ModelRecord],
) -> None:
    """A model that enlarges twice, and the data that it was not trained on."""
    shutil.copytree(prepared.path, project / "artifacts/data")
    net = tiny_net(condition=low_resolution(2))
    save_model(project / "artifacts/models/a/b", net, make_record(net, condition=low_resolution(2)))
    save_model(project / "artifacts/models/plain", tiny_net(), make_record(tiny_net()))


def run(variant: str = "a/b", seed: int = 3, **changes: Any) -> Result:
    write_params(seed=seed, contribution=CHOSEN | changes)
    return CliRunner().invoke(main, ["--variant", variant])


def tables() -> dict[str, np.ndarray]:
    return read_npz(Path("artifacts/contribution/a_b.npz"), TABLES)


def figures() -> Any:
    return json.loads(Path("results/contribution/a_b.json").read_text())


def test_the_unreplaced_run_is_plain_sampling(prepared: PreparedData) -> None:
    assert run().exit_code == 0
    experts, originals = Ensemble.load("artifacts/models/a/b"), tensor_of(prepared.holdout[:5])
    found = experts.denoise(
        experts.noise_of(range(5), 3, Stream.SAMPLE_START),
        list(range(T - 1, -1, -1)),
        eta=1.0,
        noise=lambda step: experts.noise_of(range(5), 3, Stream.SAMPLE_ADDED, step),
        condition=experts.condition(range(5), originals),
    ).clamp(-1, 1)
    mean_square = (127.5 * (found - to_model_range(originals))).double().square().mean((1, 2, 3))
    np.testing.assert_allclose(tables()["psnr"][0], 10 * torch.log10(255**2 / mean_square), rtol=1e-4)
    shift = 127.5 * (found - to_model_range(originals)).mean((2, 3)).abs()
    np.testing.assert_allclose(tables()["colour_shift"][0], shift, atol=1e-3)
    assert np.abs(tables()["samples"][0].astype(int) - to_uint8(found[:3]).numpy()).max() <= 1


def test_figures_are_those_of_the_tables_with_their_conditions(prepared: PreparedData) -> None:
    assert run().exit_code == 0
    found, arrays = figures(), tables()
    assert [row["replaced"] for row in found["runs"]] == ["none", *3 * ["range"], *3 * ["window"]]
    places = [(row.get("first"), row.get("last")) for row in found["runs"]]
    assert places == [(None, None), (1, 25), (25, 50), (1, 50), (1, 10), (21, 30), (41, 50)]
    for number, row in enumerate(found["runs"]):
        values = arrays["psnr"][number]
        assert row["psnr_mean"] == pytest.approx(values.sum() / 5)
        assert row["psnr_stderr"] == pytest.approx(np.sqrt(((values - values.mean()) ** 2).sum() / 4 / 5))
        assert row["colour_shift_mean"] == pytest.approx(arrays["colour_shift"][number].mean())
    assert arrays["samples"].shape == (7, 3, 1, 8, 8) and arrays["samples"].dtype == np.uint8
    assert np.array_equal(arrays["truth"], prepared.holdout[:3])
    # Each pixel of the low-resolution form is a mean of four.
    low = prepared.holdout[:3].astype(float).reshape(3, 1, 4, 2, 4, 2).mean((3, 5))
    enlarged = torch.nn.functional.interpolate(torch.from_numpy(low), scale_factor=2, mode="bilinear")
    assert np.abs(arrays["low"] - enlarged.numpy()).max() <= 0.5 + 1e-3
    assert found["low_resolution"]["psnr_mean"] == pytest.approx(arrays["low_psnr"].mean())
    expected = {
        "variant": "a/b",
        "prediction": "epsilon",
        "timesteps": T,
        "super_resolution_factor": 2,
        "images": 5,
        "eta": 1.0,
    }
    assert expected.items() <= found.items()
    assert (found["noise_seed"], found["training_seed"], found["total_images"]) == (3, 0, 12)


def test_knowing_the_truth_helps_an_untrained_network_and_batches_do_not_matter() -> None:
    assert run().exit_code == 0
    first = tables()["psnr"]
    assert (first[3] > first[0]).all() and not np.allclose(first[1], first[2])
    assert run(batch_size=5).exit_code == 0
    np.testing.assert_allclose(tables()["psnr"], first, rtol=1e-3)
    assert run(seed=4).exit_code == 0
    assert not np.allclose(tables()["psnr"][0], first[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("variant", "changes", "complaint"),
    [
        ("plain", {}, "plain: an unconditional model; allowed: one of super-resolution (network.condition)"),
        ("a/b", {"images": 13}, "contribution.images: 13; allowed: at most the 12 held-out images"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(variant: str, changes: dict[str, Any], complaint: str) -> None:
    result = run(variant, **changes)
    assert result.exit_code == 1
    assert result.output == f"contribution: {complaint}\n"
