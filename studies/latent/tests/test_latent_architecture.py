from pathlib import Path

import pytest

from unequal.cli.architecture import Architecture, limited_groups, network_cost, network_space
from unequal.timesteps.groups import mean_limit

STUDY = Path(__file__).parents[1]


def test_latent_diffusions_network_is_that_of_paper_3() -> None:
    """274.1 M parameters and 96.1 G in its Table I; the shape of latents is known without their autoencoder."""
    params = Architecture.read(STUDY / "ffhq256-ldm.yaml")
    cost = network_cost(params)
    assert network_space(params).shape == (3, 64, 64)
    assert (cost.parameters / 1e6, cost.macs / 1e9) == pytest.approx((274.1, 96.1), rel=5e-3)
    assert params.groups and (len(params.groups.ids), params.groups.min_ratio) == (10, 0.5)
    assert mean_limit(limited_groups(params.schedule, params.groups)) == pytest.approx(0.8133, abs=1e-4)
