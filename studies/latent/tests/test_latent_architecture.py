"""Networks for latents: what they see, how large they are, what they cost."""

from pathlib import Path

import pytest

from unequal.cli.architecture import Architecture, Limits, network_cost, network_space, spec_of
from unequal.models.backbones.backbone import build_network, count_cost

STUDY = Path(__file__).parents[1]


def test_latent_diffusions_network_is_that_of_paper_3() -> None:
    """274.1 M parameters and 96.1 G in its Table I; the shape of latents is known without their autoencoder."""
    params = Architecture.read(STUDY / "ffhq256-ldm.yaml")
    cost = network_cost(params)
    assert network_space(params).shape == (3, 64, 64)
    assert (cost.parameters / 1e6, cost.macs / 1e9) == pytest.approx((274.1, 96.1), rel=5e-3)
    assert params.groups
    assert (len(params.groups.ids), params.groups.min_ratio) == (10, 0.5)
    assert Limits.of(params.schedule, params.groups).mean == pytest.approx(0.8133, abs=1e-4)


def test_a_network_for_latents_is_counted_on_latents() -> None:
    """8.68 M multiply–accumulates on 8 × 8 × 4, as its record says; on 16 × 16 × 3 there were four times as many."""
    params = Architecture.read(STUDY / "params.yaml")
    cost = network_cost(params)
    assert cost.macs == count_cost(build_network(params.network, spec_of(params))).macs
    pixels = params.model_copy(update={"autoencoder": None})
    assert network_cost(pixels).macs == pytest.approx(4 * cost.macs, rel=0.02)
