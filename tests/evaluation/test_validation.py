"""The validation loss: fixed draws, closed forms for a network that is known, and resolution."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from one_line import refusal
from torch import Tensor, nn

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.evaluation.validation import Validated, Validation
from unequal.models.denoiser import Denoiser
from unequal.timesteps.batches import Timesteps
from unequal.timesteps.samplers import TimestepSampler, uniform

LINEAR = NoiseSchedule.linear(1000)
GAUSSIAN = torch.randn(4096, 8, generator=torch.Generator().manual_seed(0))


def denoiser(net: Callable[..., Any], prediction: str = "epsilon", schedule: NoiseSchedule = LINEAR) -> Denoiser:
    return Denoiser(net, schedule, prediction)


def nothing(prediction: str = "epsilon") -> Denoiser:
    return denoiser(lambda x_t, timestep: 0 * x_t, prediction)


def test_each_image_has_a_timestep_of_its_stratum():
    one, again, other = (Validation.stratified(1000, images=320, strata=20, seed=seed).timesteps for seed in (0, 0, 1))
    rows = one.reshape(-1, 20).numpy()
    assert (np.floor(rows * 20 / 1000) == np.arange(20)).all()
    assert len(np.unique(rows[:, 0])) > 1
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction", "sample"])
def test_a_network_that_answers_nothing_misses_all_of_the_target(prediction):
    found = Validation.stratified(1000, 4096)(nothing(prediction), GAUSSIAN)
    assert found.loss == pytest.approx(1.0, abs=4 * found.stderr)
    assert found.stderr == pytest.approx(np.sqrt(2 / (4096 * 8)), rel=0.05)


def test_the_best_network_of_a_gaussian_has_its_loss():
    """ε̂ = σ·x_t for data N(0, 1) that preserve variance, with the error α²."""
    validation = Validation.stratified(1000, 4096)
    found = validation(denoiser(lambda x_t, t: LINEAR.sigma.float()[t][:, None] * x_t), GAUSSIAN)
    assert found.loss == pytest.approx(float((LINEAR.alpha**2)[validation.timesteps].mean()), abs=4 * found.stderr)


def test_a_flow_is_validated_at_the_times_at_which_it_is_trained():
    """Both are given indices, and a network that takes 1000·s gets that of either."""
    flow, times = Flow(1000, shift=3.0), list[Tensor]()
    asked = denoiser(lambda x_t, time: times.append(time) or x_t, "velocity", flow)
    validation = Validation.stratified(1000, 64)
    validation(asked, GAUSSIAN)
    drawn = Timesteps(TimestepSampler(uniform(1000))).draw(64).timesteps
    asked.losses(GAUSSIAN[:64], GAUSSIAN[64:128], drawn)
    validated, trained = times
    assert torch.equal(validated, (1000 * flow.sigma[validation.timesteps]).float())
    assert torch.equal(trained, (1000 * flow.sigma[drawn]).float())


class Dropping(nn.Module):
    def forward(self, x_t: Tensor, timestep: Tensor, label: Tensor | None = None) -> Tensor:
        answer = 0.5 * x_t if label is None else label[:, None] * x_t
        return answer + torch.randn_like(x_t) if self.training else answer


def test_a_validation_is_the_same_again_however_it_is_cut_and_leaves_all_as_it_was():
    validation, net = Validation.stratified(1000, 64, strata=8), denoiser(Dropping())
    state = torch.get_rng_state()
    whole = validation(net, GAUSSIAN)
    assert validation(net, GAUSSIAN, batch_size=7).errors == pytest.approx(whole.errors, rel=1e-6)
    assert np.array_equal(validation(net, GAUSSIAN).errors, whole.errors)
    assert net.net.training
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


SIXTEEN, WIDE = Validation.stratified(1000, 16, strata=8), torch.zeros(16, 3, 4, 4)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Validation.stratified(1000, 100), "100 images for 32 strata; allowed: a multiple of 32 from 64"),
        (lambda: Validation.stratified(1000, 8, 8), "8 images for 8 strata; allowed: a multiple of 8 from 16 on"),
        (lambda: Validation.stratified(10, 64, strata=0), "0 strata of 10 timesteps; allowed: 1 … 10"),
        (lambda: SIXTEEN(nothing(), GAUSSIAN[:3]), "3 images for 16 timesteps of validation; allowed: as many"),
        (lambda: SIXTEEN(denoiser(nothing, schedule=Flow(10)), GAUSSIAN), "of a denoiser of 10 timesteps"),
        (lambda: SIXTEEN(nothing(), GAUSSIAN).images_to_resolve(0), "a difference of 0; allowed: above 0"),
        (lambda: SIXTEEN(denoiser(lambda x_t, timestep: x_t / 0), GAUSSIAN).loss, "losses are finite"),
        # A finite loss would come out, of one channel that is compared with three.
        (
            lambda: SIXTEEN(denoiser(lambda x_t, t: x_t[:, :1]), WIDE),
            "answers [16, 1, 4, 4] to [16, 3, 4, 4]; nee",
        ),
    ],
)
def test_misfits_are_refused_in_one_line(make, said):
    assert said in refusal(make)
