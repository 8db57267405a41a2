"""Gradients as Adam sees them: by PyTorch's own steps, and beside the meter of plain ones."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from diffusers.models.unets.unet_2d import UNet2DModel
from torch import nn

from unequal.data.prepared import PreparedData, tensor_of
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.partition import Partition
from unequal.training.checkpoint import moments
from unequal.training.gradient_meter import AdamMeter, GradientMeter, adam_scales, squared_norms_in_both
from unequal.training.objectives.objective import SingleHead

CELLS = Partition([(0, 0), (1, 20), (21, 49)])


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2))


def loss_of(net: nn.Module, seed: int) -> torch.Tensor:
    return net(torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))).square().mean()


def test_the_square_of_the_scales_is_what_pytorchs_adam_multiplies_gradients_by() -> None:
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.0, 0.9), weight_decay=0.0)
    for step in range(5):
        before = [one.detach().clone() for one in net.parameters()]
        optimizer.zero_grad()
        loss_of(net, step).backward()
        optimizer.step()
    scales = adam_scales(net, moments(optimizer, net), 0.9)
    for old, new, scale in zip(before, net.parameters(), scales, strict=True):
        torch.testing.assert_close(new.detach() - old, -1e-3 * scale**2 * new.grad, rtol=1e-3, atol=1e-7)


def test_a_training_without_second_moments_is_refused() -> None:
    with pytest.raises(UserError, match=r"no second moment of 0\.weight; allowed: optimizer adamw"):
        adam_scales(network(), {}, 0.9)


def test_lengths_are_those_of_scaled_gradients() -> None:
    net = network()
    parameters = list(net.parameters())
    scales = [
        torch.rand(one.shape, generator=torch.Generator().manual_seed(number)) for number, one in enumerate(parameters)
    ]
    found = squared_norms_in_both((loss_of(net, seed) for seed in (1, 2)), parameters, scales)
    for column, seed in zip(found.T, (1, 2), strict=True):
        gradient = torch.autograd.grad(loss_of(net, seed), parameters)
        plain = sum(part.double().square().sum() for part in gradient)
        scaled = sum((part * scale).double().square().sum() for part, scale in zip(gradient, scales, strict=True))
        torch.testing.assert_close(column, torch.stack([plain, scaled]))


def test_both_metrics_are_of_the_draws_of_the_plain_meter(
    prepared: PreparedData, tiny_net: Callable[..., UNet2DModel]
) -> None:
    net, objective = (
        tiny_net().train().requires_grad_(True),
        SingleHead("epsilon", NoiseSchedule.linear(50)),
    )
    meter = GradientMeter(net, objective, tensor_of(prepared.train), 4, single_images=8, mean_images=16, seed=0)
    found = AdamMeter(meter, tuple(torch.full_like(one, 2.0) for one in net.parameters())).samples(CELLS)
    plain = meter.sample(CELLS)
    np.testing.assert_allclose(found["raw"].squares, plain.squares, rtol=1e-6)
    np.testing.assert_allclose(found["raw"].products, plain.products, rtol=1e-6)
    np.testing.assert_allclose(found["adam"].squares, 4 * plain.squares, rtol=1e-6)
    np.testing.assert_allclose(found["adam"].products, 4 * plain.products, rtol=1e-6)
