"""The best denoiser against closed forms, quadrature and every other denoiser that comes to mind."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensors import levels, normal

from unequal.diffusion.optimal_denoiser import CORRECTION, optimal_loss, optimal_x0, sampled_loss, sampled_x0
from unequal.diffusion.schedule import NoiseSchedule

ANGLES = st.floats(0.05, math.pi / 2 - 0.05)
SEEDS = st.integers(0, 2**32 - 1)


@given(ANGLES, SEEDS)
def test_many_images_are_weighed_by_the_density_of_the_noise_between(angle, seed):
    alpha, sigma = levels(angle)
    images, x_t = normal(seed, 7, 2, 2, 2), normal(seed + 1, 3, 2, 2, 2)
    distances = (x_t[:, None] - alpha * images).flatten(2).square().sum(2)
    expected = torch.einsum("bn,nchw->bchw", torch.softmax(-distances / (2 * sigma**2), dim=1), images)
    torch.testing.assert_close(optimal_x0(x_t, images, alpha, sigma), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("snr", [0.05, 0.5, 1.0, 3.0, 10.0])
def test_two_opposite_values_have_the_known_least_error(snr):
    """mmse(s) = 1 − E tanh(s − √s·Z) of a ±1 signal in Gaussian noise (Guo, Shamai, Verdú 2005, eq. 17)."""
    nodes, shares = np.polynomial.hermite_e.hermegauss(120)
    shares = torch.from_numpy(shares / shares.sum())
    known = 1 - (shares * torch.tanh(snr - math.sqrt(snr) * torch.from_numpy(nodes))).sum()
    alpha, sigma = levels(math.atan(1 / math.sqrt(snr)))
    images = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    errors = optimal_loss(torch.ones(len(nodes), 1), torch.from_numpy(nodes)[:, None], images, alpha, sigma)
    assert ((shares * errors).sum() / snr).item() == pytest.approx(known.item(), rel=1e-3)


@given(ANGLES, SEEDS)
def test_the_loss_is_the_error_of_the_noise(angle, seed):
    alpha, sigma = levels(angle)
    images, epsilon = normal(seed, 4, 1, 2, 2), normal(seed + 1, 4, 1, 2, 2)
    x_t = alpha * images + sigma * epsilon
    predicted = (x_t - alpha * optimal_x0(x_t, images, alpha, sigma)) / sigma
    expected = (epsilon - predicted).square().flatten(1).mean(1)
    torch.testing.assert_close(optimal_loss(images, epsilon, images, alpha, sigma), expected, rtol=1e-6, atol=1e-12)


def test_single_precision_is_widened_before_small_differences_are_taken():
    schedule = NoiseSchedule.linear(1000)
    images = normal(9, 10, 1, 8, 8).float()
    found = optimal_loss(images, normal(10, 10, 1, 8, 8).float(), images, schedule.alpha[0], schedule.sigma[0])
    assert found.dtype == torch.float64
    assert found.max() < 1e-12


@given(ANGLES, SEEDS)
def test_a_sample_of_all_without_a_correction_is_all(angle, seed):
    alpha, sigma = levels(angle)
    images, x_t = normal(seed, 5, 1, 2, 2), normal(seed + 1, 3, 1, 2, 2)
    own = torch.tensor([4, 0, 2])
    others = own[:, None] != torch.arange(5)
    found = sampled_x0(x_t, images[own], images, others, 1.0, alpha, sigma)
    torch.testing.assert_close(found, optimal_x0(x_t, images, alpha, sigma), rtol=1e-6, atol=1e-9)


@given(ANGLES, SEEDS)
def test_an_image_counted_as_nothing_is_left_out(angle, seed):
    """Two images beside the one that x_t was made of, which is among the sample too."""
    alpha, sigma = levels(angle)
    images, x_t = normal(seed, 3, 1, 2, 2), normal(seed + 1, 1, 1, 2, 2)
    others = torch.tensor([[True, False, True]])
    found = sampled_x0(x_t, images[1:2], images, others, math.inf, alpha, sigma)
    torch.testing.assert_close(found, optimal_x0(x_t, images[[0, 2]], alpha, sigma), rtol=1e-6, atol=1e-9)


def test_a_sample_estimates_the_least_loss_by_counting_the_own_image_for_less():
    """1,000 normal images of 8 values, 100 of them a sample: uncorrected it is a third too low, without the own image
    nearly a half too high (the mean of 4,000 draws is within some per cent). With C = N/N' it lies between the
    uncorrected one and that of cDOL."""
    images = normal(0, 1000, 8)
    generator = np.random.default_rng(1)
    own = torch.from_numpy(generator.integers(1000, size=4000))
    x0, epsilon = images[own], normal(1, 4000, 8)
    sigma = torch.tensor(0.7 / math.hypot(1, 0.7), dtype=torch.float64)
    alpha = (1 - sigma**2).sqrt()
    full = float(optimal_loss(x0, epsilon, images, alpha, sigma).mean())

    def estimate(correction: float) -> float:
        parts = []
        for part in range(0, 4000, 200):  # a sample for each, as there is one for each timestep
            index = torch.from_numpy(generator.choice(1000, 100, replace=False))
            here = slice(part, part + 200)
            others = own[here, None] != index
            parts.append(sampled_loss(x0[here], epsilon[here], images[index], others, correction, alpha, sigma))
        return float(torch.cat(parts).mean()) / full

    uncorrected, by_share, corrected = (estimate(one) for one in (1.0, 1000 / 100, CORRECTION * 1000 / 100))
    assert uncorrected < 0.8
    assert corrected == pytest.approx(1, abs=0.15)
    assert uncorrected < by_share < corrected
    assert estimate(1e300) > 1.25
