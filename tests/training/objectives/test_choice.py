"""The objective that a model's record asks for."""

from collections.abc import Callable

import pytest
import torch
from pydantic import TypeAdapter
from specs import low_resolution, spec_of

from unequal.diffusion.schedule import NoiseSchedule
from unequal.settings.loss_weights import AnyLossWeight
from unequal.training.objectives import Conditioned, Hybrid, SingleHead, objective_for

SCHEDULE = NoiseSchedule.linear(50)


@pytest.mark.parametrize(("learned", "kind"), [(False, SingleHead), (True, Hybrid)])
def test_objective_of_a_record(learned: bool, kind: type, tiny_net: Callable, make_record: Callable) -> None:
    record = make_record(tiny_net(), prediction="v_prediction", variance="learned" if learned else "fixed")
    plain = objective_for(record.spec, SCHEDULE)
    assert type(plain) is kind
    assert plain.prediction == "v_prediction"
    assert plain.weights.tolist() == [1.0] * 50
    snr = SCHEDULE.snr.float()
    weight = TypeAdapter(AnyLossWeight).validate_python({"kind": "min_snr", "gamma": 5.0})
    torch.testing.assert_close(
        objective_for(record.spec, SCHEDULE, weight).weights, snr.clamp(max=5) / (snr + 1), rtol=1e-5, atol=0
    )


def test_objective_of_a_model_of_super_resolution(tiny_net: Callable, make_record: Callable) -> None:
    found = objective_for(spec_of(condition=low_resolution(4), variance="learned"), SCHEDULE)
    assert isinstance(found, Conditioned)
    assert found.condition == low_resolution(4)
    assert isinstance(found.objective, Hybrid)
