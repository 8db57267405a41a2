"""Loss weights against the published formulas, diffusers' SNR, and each other."""

import pytest
import torch
from diffusers import DDPMScheduler
from diffusers.training_utils import compute_snr
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.predictions import PREDICTIONS, x0_error_factor
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.weights import loss_weights

SNR = NoiseSchedule.linear(1000).snr
SINGLE = st.floats(1e-6, 1e6).map(lambda snr: torch.tensor([snr], dtype=torch.float64))
GAMMAS = st.floats(0.05, 20)


@pytest.mark.parametrize("gamma", [1.0, 5.0, 20.0])
def test_min_snr_is_the_published_weight_of_each_prediction(gamma: float) -> None:
    theirs = compute_snr(DDPMScheduler(beta_schedule="linear"), torch.arange(1000)).double()
    smaller = theirs.clamp(max=gamma)
    for prediction, expected in (
        ("epsilon", smaller / theirs),
        ("v_prediction", smaller / (theirs + 1)),
        ("sample", smaller),
    ):
        torch.testing.assert_close(loss_weights("min_snr", prediction, SNR, gamma), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("k", "gamma"), [(1, 1.0), (1, 0.5)])
def test_p2_is_the_published_weight_of_epsilon(k: int, gamma: float) -> None:
    torch.testing.assert_close(loss_weights("p2", "epsilon", SNR, gamma), 1 / (k + SNR) ** gamma)


def test_p2_of_the_other_predictions_carries_their_factor() -> None:
    epsilon = loss_weights("p2", "epsilon", SNR, 1.0)
    torch.testing.assert_close(loss_weights("p2", "v_prediction", SNR, 1.0), epsilon * SNR / (1 + SNR))
    torch.testing.assert_close(loss_weights("p2", "sample", SNR, 1.0), epsilon * SNR)


@pytest.mark.parametrize("kind", ["min_snr", "p2"])
@given(SINGLE, GAMMAS)
def test_the_same_mistake_costs_the_same_in_every_prediction(kind: str, snr: torch.Tensor, gamma: float) -> None:
    """An x0-error of 1 is an error of 1/factor in the prediction: weight times error must not depend on it."""
    alpha, sigma = (snr / (1 + snr)).sqrt(), (1 / (1 + snr)).sqrt()
    costs = [
        (loss_weights(kind, prediction, snr, gamma) / x0_error_factor(prediction, alpha, sigma)).item()
        for prediction in PREDICTIONS
    ]
    assert costs == pytest.approx([costs[0]] * 3, rel=1e-9)


@given(SINGLE, GAMMAS)
def test_min_snr_is_capped_where_the_signal_is_strong_and_1_elsewhere(snr: torch.Tensor, gamma: float) -> None:
    epsilon = loss_weights("min_snr", "epsilon", snr, gamma).item()
    assert epsilon == pytest.approx(min(1, gamma / snr.item()))
    assert loss_weights("min_snr", "sample", snr, gamma).item() <= gamma * (1 + 1e-12)


def test_speeds_weight_has_its_known_values() -> None:
    """Of its program on the linear schedule: κ = 0.6 where the noise changes fastest, 1 from 0.7·T on."""
    weights = loss_weights("change_aware", "epsilon", SNR)
    assert [round(float(weights[t]), 4) for t in (0, 699)] == [0.4088, 0.4072]
    assert float(weights[:700].max()) == pytest.approx(0.6)
    assert int(weights[:700].argmax()) == 219
    assert (weights[700:] == 1).all()


def test_speeds_weight_of_the_other_predictions_carries_their_factor() -> None:
    epsilon = loss_weights("change_aware", "epsilon", SNR)
    torch.testing.assert_close(loss_weights("change_aware", "sample", SNR), epsilon * SNR)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_no_weight_is_1_everywhere(prediction: str) -> None:
    assert torch.equal(loss_weights("none", prediction, SNR), torch.ones(1000).double())


@pytest.mark.parametrize(
    ("kind", "prediction", "gamma", "complaint"),
    [
        ("min_snr", "epsilon", None, "loss weight 'min_snr' needs a gamma above 0, got None"),
        ("p2", "epsilon", -1.0, "loss weight 'p2' needs a gamma above 0, got -1.0"),
        ("p2", "epsilon", 0.0, "loss weight 'p2' needs a gamma above 0, got 0.0"),
        ("soft", "epsilon", 5.0, "loss weight 'soft' is unknown; allowed: none, min_snr, p2, change_aware"),
        ("p2", "score", 1.0, "prediction 'score' is unknown; allowed: epsilon, v_prediction, sample"),
    ],
)
def test_weights_that_cannot_be_are_refused(kind: str, prediction: str, gamma: float | None, complaint: str) -> None:
    with pytest.raises(UserError) as refusal:
        loss_weights(kind, prediction, SNR, gamma)
    assert str(refusal.value) == complaint
