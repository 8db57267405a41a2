"""Both loops are given the same work, and both do it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.documented_loop import Pictures
from benchmarks.timing import in_turns, ratio
from benchmarks.training import (
    comparable,
    contestants,
    documented,
    measure,
    measure_beside_passes,
    our_loop,
    transformer,
)
from unequal.settings.params.pipeline import Params

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def params() -> Params:
    return comparable(Params.read(ROOT / "presets/digits.yaml"), CPU, batch_size=4)


def test_both_loops_train_the_same_network_on_the_same_images(params: Params, tmp_path: Path) -> None:
    ours, theirs = our_loop(params, CPU, tmp_path), documented(params, CPU, encoded=True)
    assert {n: p.shape for n, p in ours.net.named_parameters()} == {
        n: p.shape for n, p in theirs.net.named_parameters()
    }
    expected = ours.source.images[5].float() / 127.5 - 1
    torch.testing.assert_close(theirs.loader.dataset[5], expected)
    assert next(theirs.batches).shape == ours.source.draw(0).x0.shape == (4, 1, 8, 8)


def test_the_documented_loop_learns(params: Params) -> None:
    loop = documented(params, CPU, encoded=False)
    loop.schedule.scheduler.lr_lambdas = [lambda step: 1.0]
    loop.run(1)
    first = loop.loss
    loop.run(30)
    assert loop.loss < first
    assert loop.ema.optimization_step == 31


@pytest.mark.parametrize("channels", [1, 3])
def test_encoded_and_decoded_pictures_are_the_same(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 8, 8, channels), dtype=np.uint8)
    encoded, decoded = (Pictures(images, False, whether) for whether in (True, False))
    for one, other in zip(encoded, decoded, strict=True):
        assert torch.equal(one, other)
        assert one.shape == (channels, 8, 8)


def test_every_contestant_takes_the_steps_that_are_told(params: Params, tmp_path: Path) -> None:
    work = contestants(params, CPU, 3, tmp_path)
    assert list(work) == ["ours", "documented", "documented_decoded", "passes"]
    work["ours"]()
    trainer = work["ours"].args[0]  # type: ignore[attr-defined]
    assert trainer.step == trainer.averages.main.updates == 3
    further = contestants(params, CPU, 3, tmp_path / "further", also_compiled=True)
    compiled = further["ours_compiled"].args[0]  # type: ignore[attr-defined]
    assert [one.runtime.compile for one in (trainer, compiled)] == [False, True]


def test_ratios_are_of_images_a_second(params: Params) -> None:
    result = measure(params, CPU, steps=1, rounds=2)
    times = result["seconds"]
    assert result["ratio"] == ratio(times["documented"], times["ours"])
    assert result["ratio_of_passes"] == ratio(times["documented"], times["passes"])
    fastest, slowest = min(times["ours"]), max(times["ours"])
    assert 4 / slowest <= result["images_per_second"]["ours"] <= 4 / fastest


def test_turns_go_round_and_the_first_warms_up() -> None:
    turns: list[str] = []
    times = in_turns({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 2, CPU)
    assert "".join(turns) == "abbaab"
    assert [len(found) for found in times.values()] == [2, 2]


def test_a_ratio_is_the_median_of_rounds() -> None:
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == {"median": 3.0, "low": 2.5, "high": 3.5}
    assert ratio([3.0], [2.0]) == {"median": 1.5, "low": 1.5, "high": 1.5}


def test_a_transformer_trains_beside_its_passes(params: Params) -> None:
    found = measure_beside_passes(transformer(params), CPU, steps=2, rounds=2)
    assert found["kind"] == "dit"
    assert found["time_over_passes"]["median"] > 0
    assert all(len(times) == 2 for times in found["seconds"].values())
