"""The benchmark compares what it says: the network is asked the same in both timings."""

from pathlib import Path

import pytest
import torch

from benchmarks import profile as benchmark
from unequal.settings.params.pipeline import Params

ROOT = Path(__file__).parents[2]


def test_both_timings_ask_the_network_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[torch.Tensor, torch.Tensor]] = []
    build = benchmark.build_network

    def watched(*settings: object) -> torch.nn.Module:
        net = build(*settings)
        net.register_forward_pre_hook(lambda _, given: asked.append(given))
        return net

    monkeypatch.setattr(benchmark, "build_network", watched)
    params = Params.read(ROOT / "params.yaml")
    quick = params.model_copy(
        update={
            "schedule": params.schedule.model_copy(update={"timesteps": 30}),
            "profile": params.profile.model_copy(update={"images": 2, "batch_size": 25}),
        }
    )
    result = benchmark.measure(quick, torch.device("cpu"), repeats=2)
    warm_up, whole, bare, again = asked[:2], asked[2:5], asked[5:8], asked[8:]
    assert sum(len(t) for _, t in whole) == 30 * 2
    for one in (warm_up + whole[2:], bare, again[:3], again[3:]):
        for (x_t, t), (other, u) in zip(whole, one, strict=True):
            assert torch.equal(x_t, other)
            assert torch.equal(t, u)
    assert len(result["forward_seconds"]) == len(result["profile_seconds"]) == 2
