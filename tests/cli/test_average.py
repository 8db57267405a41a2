"""A model's average of another width, from what its training has kept of two."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import done, refused
from diffusers.models.unets.unet_2d import UNet2DModel
from safetensors import SafetensorError

from unequal.models.folder import AVERAGES, load_record, save_model
from unequal.models.pruned import load_any_model, take_away
from unequal.runtime.tensor_files import Saved, write_saved
from unequal.settings.training import PowerAverage
from unequal.training.averaging import AveragedWeights, Averages, of_width
from unequal.training.checkpoint import Snapshots

STEPS, KEPT = 60, 12
REMOVALS = [("down_blocks.0.resnets.0.conv1", [0, 2, 4, 6])]


@pytest.fixture
def wandered(tmp_path: Path, tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., Any]) -> dict[float, Any]:
    """A pruned model whose weights have wandered, with kept averages in its folder; averages of further widths."""
    net = tiny_net()
    take_away(net, REMOVALS)
    averages = Averages(net, PowerAverage(kind="power", width=0.1, keep=KEPT))
    wanted = {width: AveragedWeights(net, of_width(width)) for width in (0.05, 0.07, 0.15)}
    kept = Snapshots(tmp_path / "kept", averages.snapshot_steps(STEPS), "averages")
    generator = torch.Generator().manual_seed(0)
    for step in range(1, STEPS + 1):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += torch.randn(parameter.shape, generator=generator)
        averages.update(tuple(net.parameters()))
        for one in wanted.values():
            one.update(tuple(net.parameters()))
        if step in kept.steps:
            write_saved(kept.work / f"{step}.safetensors", Saved(averages.snapshot_tensors(), {"step": step}))
    save_model(tmp_path / "model", net, make_record(net, steps=STEPS, images_seen=4 * STEPS), REMOVALS)
    kept.work.rename(tmp_path / "model" / AVERAGES)
    return {width: one.average for width, one in wanted.items()}


@pytest.mark.parametrize(("width", "within"), [(0.05, 1e-5), (0.07, 0.05), (0.15, 0.1)])
def test_a_width_that_was_not_saved(wandered: dict[float, Any], tmp_path: Path, width: float, within: float) -> None:
    """Within a small part of what the weights have wandered, √60 in the mean square."""
    output = done("average", tmp_path / "model", tmp_path / "other", "--width", width)
    assert output.startswith(f"{tmp_path / 'other'}: width {width:g}, met but for ")
    net, record = load_any_model(tmp_path / "other")
    assert record.changed(sha256={}) == load_record(tmp_path / "model").changed(sha256={})
    for name, value in net.named_parameters():
        error = (value - wandered[width][name]).square().mean().sqrt()
        assert float(error) < within * STEPS**0.5, name


def test_refusals_in_one_line(wandered: dict[float, Any], tmp_path: Path, make_record: Callable[..., Any]) -> None:
    model, target = tmp_path / "model", tmp_path / "other"

    def refusal(width: float = 0.07) -> str:
        output = refused("average", model, target, "--width", width)
        assert not (target / "model.json").exists()
        return output

    assert "a relative width of 0.3; allowed: above 0, at most 0.2887" in refusal(0.3)
    assert "12 stored snapshot(s) miss 31% of an average of width 0.285; at most 10%" in refusal(0.285)
    damaged = model / AVERAGES / f"{STEPS}.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-8])
    assert f"{damaged}: " in (said := refusal()) and said.endswith("make the model again\n")
    damaged.rename(odd := damaged.with_stem("last"))
    assert f"{odd}: no step in its name; allowed: the names that training gives, as 5000.safetensors" in refusal()
    for file in (model / AVERAGES).iterdir():
        file.unlink()
    assert f"{model}: keeps no averages; set keep in training.average (kind power), and train it again" in refusal()
    target.mkdir()
    assert f"{target}: exists already; name a new folder" in refusal()
    mixed, record = load_any_model(model)
    save_model(model, mixed, record.changed(spec=make_record(mixed, prediction="mixed").spec), REMOVALS)
    target.rmdir()
    assert f"{model}: has three heads" in refusal()


def test_a_full_disk_is_one_line_and_leaves_no_half_folder(
    wandered: dict[float, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensors: Any, path: Path, metadata: Any = None) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("unequal.models.folder.save_file", full)
    before = sorted(tmp_path.iterdir())
    said = refused("average", tmp_path / "model", tmp_path / "new", "--width", 0.05)
    assert said.endswith(": No space left on device\n")
    assert sorted(tmp_path.iterdir()) == before
