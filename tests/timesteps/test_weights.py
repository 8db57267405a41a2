"""Loss weights against the published formulas, diffusers' SNR, and each other."""

from inspect import signature

import numpy as np
import pytest
import torch
from diffusers import DDPMScheduler
from diffusers.training_utils import compute_snr
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.predictions import PREDICTIONS, epsilon_error_factor, x0_error_factor
from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.timesteps.weights import WEIGHTS, loss_weights, normalising_factor

SNR = NoiseSchedule.linear(1000).snr
SINGLE = st.floats(1e-6, 1e6).map(lambda snr: torch.tensor([snr], dtype=torch.float64))
GAMMAS = st.floats(0.05, 20)


@pytest.mark.parametrize("gamma", [1.0, 5.0, 20.0])
def test_min_snr_is_the_published_weight_of_each_prediction(gamma):
    snr = compute_snr(DDPMScheduler(beta_schedule="linear"), torch.arange(1000)).double()
    least = snr.clamp(max=gamma)
    for prediction, expected in (("epsilon", least / snr), ("v_prediction", least / (snr + 1)), ("sample", least)):
        found = loss_weights("min_snr", prediction, SNR, gamma=gamma)
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)


def test_p2_is_the_published_weight_of_epsilon():
    torch.testing.assert_close(loss_weights("p2", "epsilon", SNR, gamma=0.5), (1 + SNR) ** -0.5)


@pytest.mark.parametrize("kind", [one for one in WEIGHTS if one not in ("constant", "change_aware")])
@settings(max_examples=30)
@given(SINGLE, GAMMAS)
def test_the_same_mistake_costs_the_same_in_every_prediction(kind, snr, gamma):
    """An x0-error of 1 is an error of 1/factor in the prediction: weight times error must not depend on it."""
    alpha, sigma = (snr / (1 + snr)).sqrt(), (1 / (1 + snr)).sqrt()
    keywords = {"gamma": gamma} if "gamma" in signature(WEIGHTS[kind]).parameters else {}
    costs = [
        (loss_weights(kind, prediction, snr, **keywords) / x0_error_factor(prediction, alpha, sigma)).item()
        for prediction in PREDICTIONS
    ]
    assert costs == pytest.approx([WEIGHTS[kind](snr, **keywords).item()] * len(PREDICTIONS), rel=1e-9)


def test_speeds_weight_has_its_known_values():
    """Values of its program on the linear schedule: κ = 0.6 where the noise changes fastest, 1 from 0.7·T on."""
    weights = loss_weights("change_aware", "epsilon", SNR)
    assert [round(float(weights[t]), 4) for t in (0, 699)] == [0.4088, 0.4072]
    assert float(weights[:700].max()) == pytest.approx(0.6)
    assert int(weights[:700].argmax()) == 219
    assert (weights[700:] == 1).all()
    torch.testing.assert_close(loss_weights("change_aware", "sample", SNR), weights * SNR)


@pytest.mark.parametrize(
    ("kind", "prediction", "complaint"),
    [
        ("soft", "epsilon", f"loss weight 'soft' is unknown; allowed: none, {', '.join(WEIGHTS)}"),
        ("edm", "score", "prediction 'score' is unknown; allowed: epsilon, v_prediction, sample, velocity"),
    ],
)
def test_weights_that_cannot_be_are_refused(kind, prediction, complaint):
    assert refusal(loss_weights, kind, prediction, SNR).startswith(complaint)


@pytest.mark.parametrize(
    ("kind", "keywords", "expected"),
    [
        ("constant", {"space": "x0"}, 1),
        ("constant", {"space": "epsilon"}, 4),
        ("constant", {"space": "v"}, 5),
        ("constant", {"space": "velocity"}, 9),
        ("edm", {}, 8),
        ("debiased", {}, 2),
        ("soft_min_snr", {}, 2),
        ("cosmap", {}, 10.31),
        ("min_snr", {"gamma": 5.0}, 4),
        ("p2", {"gamma": 1.0}, 0.8),
    ],
)
def test_weights_of_errors_of_x0_at_an_snr_of_4(kind, keywords, expected):
    found = loss_weights(kind, "sample", torch.tensor([4.0], dtype=torch.float64), **keywords)
    assert found.item() == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    ("space", "prediction"), [("x0", "sample"), ("epsilon", "epsilon"), ("v", "v_prediction"), ("velocity", "velocity")]
)
def test_a_constant_weight_is_1_for_the_network_of_its_own_space(space, prediction):
    """No weight is 1 for all of them."""
    torch.testing.assert_close(loss_weights("constant", prediction, SNR, space=space), torch.ones_like(SNR))
    assert torch.equal(loss_weights("none", prediction, SNR), torch.ones_like(SNR))


def test_published_forms_for_other_predictions():
    # 2310.08442 gives 1/√SNR for ε; so v has √SNR/(1 + SNR).
    torch.testing.assert_close(loss_weights("debiased", "epsilon", SNR), SNR**-0.5)
    torch.testing.assert_close(loss_weights("debiased", "v_prediction", SNR), SNR.sqrt() / (1 + SNR))
    flow = Flow(1000, 2.0)
    bell = 2 / (np.pi * (1 - 2 * flow.sigma + 2 * flow.sigma**2))
    torch.testing.assert_close(loss_weights("cosmap", "velocity", flow.snr), bell)
    torch.testing.assert_close(epsilon_error_factor("velocity", flow.snr), flow.alpha**2)


@given(st.integers(0, 1000))
def test_normalised_weights_leave_the_expected_loss(seed):
    generator = np.random.default_rng(seed)
    weights, losses = generator.random((2, 50)) + 0.01
    probabilities = generator.dirichlet(np.ones(50))
    factor = normalising_factor(weights, probabilities, losses)
    assert (probabilities * factor * weights * losses).sum() == pytest.approx(losses.mean())
