"""The presets' networks against the papers' figures."""

from pathlib import Path

import pytest
from graph import ROOT

from unequal.cli.architecture import Architecture, limited_groups, network_cost
from unequal.settings.strict import read_yaml
from unequal.timesteps.groups import mean_limit

# preset → printed in paper 3's Table I (10⁶ parameters, 10⁹ multiply–accumulates), by UNet2DModel to more digits, and
# the mean limit of paper 3's groups. Of DDPM for CIFAR-10 the table prints 38.2 M, others 35.7 M: the latter is right.
PAPERS = {
    "cifar10-iddpm": ((52.5, 8.14), (52.55, 8.137), 0.8328),
    "cifar10-ddpm": ((35.7, 6.06), (35.75, 6.054), 0.8328),
    "imagenet64-iddpm": ((121, 39.3), (121.06, 39.35), 0.8328),
    "ffhq256-ddpm": ((113.7, 248.7), (113.67, 248.17), 0.8328),
}


def preset(name: str) -> Path:
    return ROOT / f"presets/{name}.yaml"


@pytest.mark.parametrize("name", PAPERS)
def test_size_and_cost_of_the_papers_networks(name: str) -> None:
    cost = network_cost(Architecture.read(preset(name)))
    found = (cost.parameters / 1e6, cost.macs / 1e9)
    printed, exact, _ = PAPERS[name]
    assert found == pytest.approx(printed, rel=5e-3)
    assert found == pytest.approx(exact, rel=2e-4)
    assert cost.macs_with_attention > cost.macs


#: DiT's presets → parameters, positions included, and 10⁹ multiply–accumulates with attention (2212.09748).
TRANSFORMERS = {
    "dit-s": (32_963_360, 6.06),
    "dit-b": (130_512_416, 23.0),
    "dit-l": (458_102_816, 80.7),
    "dit-xl": (675_129_632, 118.6),
    "sit-xl": (675_129_632, 118.6),
}


@pytest.mark.parametrize("size", TRANSFORMERS)
def test_size_and_cost_of_published_transformers(size: str) -> None:
    cost = network_cost(Architecture.read(preset(f"imagenet256-{size}")))
    assert (cost.parameters, cost.macs_with_attention / 1e9) == pytest.approx(TRANSFORMERS[size], rel=5e-3)


@pytest.mark.parametrize("name", PAPERS)
def test_settings_of_paper_3(name: str) -> None:
    params = Architecture.read(preset(name))
    assert params.groups
    steps = read_yaml(preset(name))["sampling"]["steps"]
    assert steps == (200 if name.startswith("ffhq") else 100)
    assert (len(params.groups.ids), params.groups.min_ratio, params.schedule.timesteps) == (10, 0.5, 1000)
    assert mean_limit(limited_groups(params.schedule, params.groups)) == pytest.approx(PAPERS[name][2], abs=1e-4)
