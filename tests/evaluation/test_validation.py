"""The validation loss: fixed draws, closed forms for a network that is known, and resolution."""

import numpy as np
import pytest
import torch
from one_line import refusal
from torch import Tensor, nn

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.evaluation.validation import Points, Validated, Validation

LINEAR = NoiseSchedule.linear(1000)
GAUSSIAN = torch.randn(4096, 8, generator=torch.Generator().manual_seed(0))


def nothing(x_t: Tensor, timestep: Tensor) -> Tensor:
    return torch.zeros_like(x_t)


def test_each_image_has_a_timestep_of_its_stratum():
    points, again, other = (Points.stratified(LINEAR, images=320, strata=20, seed=seed) for seed in (0, 0, 1))
    rows = points.model_timesteps.reshape(-1, 20).numpy()
    assert (np.floor(rows * 20 / 1000) == np.arange(20)).all()
    assert len(np.unique(rows[:, 0])) > 1
    assert torch.equal(points.alpha, LINEAR.alpha[points.model_timesteps])
    assert torch.equal(points.model_timesteps, again.model_timesteps)
    assert not torch.equal(points.model_timesteps, other.model_timesteps)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_a_network_that_answers_nothing_misses_all_of_the_target(prediction):
    found = Validation(Points.stratified(LINEAR, 4096), prediction)(nothing, GAUSSIAN)
    assert found.loss == pytest.approx(1.0, abs=4 * found.stderr)
    assert found.stderr == pytest.approx(np.sqrt(2 / (4096 * 8)), rel=0.05)


def test_the_best_network_of_a_gaussian_has_its_loss():
    """ε̂ = σ·x_t for data N(0, 1) that preserve variance, with the error α²."""
    points = Points.stratified(LINEAR, 4096)

    def best(x_t: Tensor, timestep: Tensor) -> Tensor:
        return LINEAR.sigma.float()[timestep][:, None] * x_t

    found = Validation(points, "epsilon")(best, GAUSSIAN)
    assert found.loss == pytest.approx(float((points.alpha**2).mean()), abs=4 * found.stderr)


class Dropping(nn.Module):
    def forward(self, x_t: Tensor, timestep: Tensor, label: Tensor | None = None) -> Tensor:
        answer = 0.5 * x_t if label is None else label[:, None] * x_t
        return answer + torch.randn_like(x_t) if self.training else answer


def test_a_validation_is_the_same_again_however_it_is_cut_and_leaves_all_as_it_was():
    validation, net = Validation(Points.stratified(LINEAR, 64, strata=8), "epsilon"), Dropping()
    state = torch.get_rng_state()
    whole = validation(net, GAUSSIAN)
    assert validation(net, GAUSSIAN, batch_size=7).errors == pytest.approx(whole.errors, rel=1e-6)
    assert np.array_equal(validation(net, GAUSSIAN).errors, whole.errors)
    assert net.training
    assert torch.equal(torch.get_rng_state(), state)
    halves = torch.full((64,), 0.5)
    assert validation(net, GAUSSIAN, label=halves).errors == pytest.approx(whole.errors, rel=1e-6)


def test_as_many_images_as_asked_for_find_a_difference():
    generator, k, difference, scatter = np.random.default_rng(0), 8, 0.02, 0.5
    pilot = Validated(1 + scatter * generator.normal(size=(k, 2000)))
    images = pilot.images_to_resolve(difference)
    assert images % k == 0
    # Two models on draws of their own: (z_0.975 + z_0.8)² · 2 · 0.5² / 0.02².
    assert images == pytest.approx(2.802**2 * 2 * scatter**2 / difference**2, rel=0.05)


def test_pairing_takes_fewer_images():
    generator = np.random.default_rng(1)
    before = generator.gamma(2.0, size=(8, 100))
    after = Validated(before * 1.01 + 0.01 * generator.normal(size=before.shape))
    assert after.change_from(Validated(before))[0] == pytest.approx(0.01, abs=0.002)
    assert after.images_to_resolve(0.01, Validated(before)) * 100 < after.images_to_resolve(0.01)


SIXTEEN = Validation(Points.stratified(LINEAR, 16, strata=8), "velocity")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Points.stratified(LINEAR, 100), "100 images for 32 strata; allowed: a multiple of 32 from 64"),
        (lambda: Points.stratified(LINEAR, 8, 8), "8 images for 8 strata; allowed: a multiple of 8 from 16 on"),
        (lambda: Points.stratified(Flow(10), 64, strata=0), "0 strata of 10 timesteps; allowed: 1 … 10"),
        (lambda: SIXTEEN(nothing, GAUSSIAN[:3]), "3 images for 16 points of validation; allowed: as many"),
        (lambda: SIXTEEN(nothing, GAUSSIAN).images_to_resolve(0), "a difference of 0; allowed: above 0"),
        (lambda: SIXTEEN(lambda x_t, timestep: x_t / 0, GAUSSIAN).loss, "losses are finite"),
    ],
)
def test_misfits_are_refused_in_one_line(make, said):
    assert said in refusal(make)
