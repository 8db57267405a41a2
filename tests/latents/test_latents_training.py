"""Training an autoencoder: it learns, its latents have variance 1, and its loss is what it says."""

import numpy as np
import pytest
import torch

from unequal.data.prepared import PreparedData, tensor_of, to_model_range
from unequal.errors import UserError
from unequal.latents.autoencoder import Autoencoder, build_autoencoder, loss_of, spread_of, train_autoencoder
from unequal.settings.data import TrainedAutoencoder


def settings(images: int) -> TrainedAutoencoder:
    return TrainedAutoencoder(
        kind="trained",
        latent_channels=2,
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        kl_weight=1e-4,
        images=images,
        batch_size=16,
        lr=5e-3,
    )


def error(net: torch.nn.Module, images: np.ndarray) -> float:
    autoencoder = Autoencoder(net, 16)
    x = to_model_range(tensor_of(images))
    return float((autoencoder.decode(autoencoder.encode(tensor_of(images))) - x).square().mean())


def test_it_learns_and_sets_the_scale(prepared: PreparedData) -> None:
    chosen = settings(640)
    net = build_autoencoder(chosen, 8, 1, seed=0)
    before = error(net, prepared.train)
    train_autoencoder(net, prepared.train, chosen, seed=0)
    assert error(net, prepared.train) < before / 2
    assert float(Autoencoder(net, 16).encode(tensor_of(prepared.train)).std()) == pytest.approx(1, abs=1e-4)


def test_a_seed_settles_it(prepared: PreparedData) -> None:
    nets = []
    for seed in (0, 0, 1):
        nets.append(build_autoencoder(settings(32), 8, 1, seed))
        train_autoencoder(nets[-1], prepared.train, settings(32), seed)
    one, same, other = (torch.cat([tensor.flatten() for tensor in net.parameters()]) for net in nets)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_loss_is_a_squared_error_a_pixel_and_a_divergence_a_latent_value() -> None:
    """KL(N(μ, σ²) ‖ N(0, 1)) = (μ² + σ² − 1 − ln σ²)/2."""
    net = build_autoencoder(settings(16), 8, 1, seed=0)
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    posterior = net.encode(x).latent_dist
    kl = (posterior.mean.square() + posterior.var - 1 - posterior.logvar).mean() / 2
    losses = []
    for weight in (0.0, 2.0):
        torch.manual_seed(0)
        losses.append(float(loss_of(net, x, weight).detach()))
    assert losses[1] - losses[0] == pytest.approx(2 * float(kl.detach()), rel=1e-4)
    torch.manual_seed(0)
    again = net.decode(posterior.sample()).sample
    assert losses[0] == pytest.approx(float((again - x).square().mean().detach()))


@pytest.mark.parametrize("value", [0.5, float("nan"), float("inf")])
def test_latents_that_have_no_scale(value: float) -> None:
    with pytest.raises(UserError, match=r"autoencoder: its latents have a standard deviation of (0\.0|nan)"):
        spread_of(torch.full((2, 2, 4, 4), value))
