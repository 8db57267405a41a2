"""The benchmark of sampling: contestants of the sizes that are told, asked for the same images, beside their FLOPs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from diffusers.models.unets.unet_2d import UNet2DModel

from benchmarks.sampling import CONTESTANTS, main, measure, untrained
from unequal.diffusion.ddim import sampling_timesteps
from unequal.files import read_json
from unequal.models.folder import ModelRecord, save_model
from unequal.sampling.ensemble import Ensemble
from unequal.settings.params.pipeline import Params
from unequal.timesteps.groups import mean_limit, timestep_groups

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def params() -> Params:
    return Params.read(ROOT / "params.yaml")


@pytest.fixture(scope="module")
def contestants(params: Params) -> dict[str, Ensemble]:
    return untrained(params, torch.device("cpu"))


def test_untrained_contestants_have_the_sizes_of_trained_ones(contestants: dict[str, Ensemble], params: Params) -> None:
    assert tuple(contestants) == CONTESTANTS
    base, unpruned, pruned = contestants.values()
    whole = base.macs_per_image([0])
    assert unpruned.parameters == len(params.groups.ids) * base.parameters
    for expert, ratio in zip(pruned.experts, (0.625, 0.75, 0.875, 1.0), strict=True):
        assert 0.95 * ratio < expert.record.macs / whole <= ratio
    # At all timesteps once, a step costs the mean limit or a little less.
    groups = timestep_groups("snr", base.schedule, len(params.groups.ids), params.groups.min_ratio)
    ratio = pruned.macs_per_image(range(1000)) / (1000 * whole)
    assert 0.97 * mean_limit(groups) < ratio <= mean_limit(groups)


def test_every_contestant_samples_all_images_in_turns(
    contestants: dict[str, Ensemble], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[tuple[Any, ...]] = []
    names = {id(experts): name for name, experts in contestants.items()}
    monkeypatch.setattr(
        Ensemble,
        "sample",
        lambda experts, *asked, **by_name: turns.append((names[id(experts)], *asked, *by_name.values())),
    )
    steps = sampling_timesteps(3, 1000)
    result = measure(contestants, steps, images=5, batch_size=2, rounds=2)
    warm_up, first, second = turns[:3], turns[3:6], turns[6:]
    assert [one[0] for one in first] == list(CONTESTANTS)[::-1]
    assert [one[0] for one in second] == list(CONTESTANTS)
    assert all(one[1:] == (5, steps, 0, 2) for one in (*warm_up, *first))
    assert all(one[1:] == (5, steps, 1, 2) for one in second)
    assert result["base"]["time_ratio"] == result["base"]["flops_ratio"] == 1
    assert result["experts_unpruned"]["flops_ratio"] == 1
    assert all(len(result[name]["seconds_per_image"]) == 2 for name in CONTESTANTS)


def test_the_models_of_a_finished_pipeline_are_taken(
    tmp_path: Path, tiny_net: Callable[..., UNet2DModel], make_record: Callable[..., ModelRecord]
) -> None:
    net = tiny_net()
    long = {"timesteps": 1000, "last": 999}
    save_model(tmp_path / "base", net, make_record(net, **long))
    for group, (first, last) in enumerate([(0, 499), (500, 999)]):
        record = make_record(net, **long | {"first": first, "last": last, "group": group, "groups": 2})
        save_model(tmp_path / f"experts_unpruned/group_{group}", net, record)
    options = ["--models", str(tmp_path), "--variant", "base", "--variant", "experts_unpruned"]
    options += ["--one-at-a-time", "--images", "2", "--rounds", "1", "--output", str(tmp_path / "out.json")]
    result = CliRunner().invoke(main, [str(ROOT / "params.yaml"), *options])
    assert result.exit_code == 0, result.output
    found = read_json(tmp_path / "out.json")
    assert found["trained"]
    assert not found["experts_unpruned"]["resident"]
    assert found["experts_unpruned"]["parameters"] == 2 * found["base"]["parameters"]
    assert "of the base's time for 1.000 of its FLOPs" in result.output.splitlines()[-1]
    missing = CliRunner().invoke(main, [str(ROOT / "params.yaml"), "--models", str(tmp_path)])
    assert missing.exit_code == 1
    assert "experts_pruned: missing" in missing.output
