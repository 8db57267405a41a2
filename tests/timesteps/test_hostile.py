"""Values that no public object can mean are refused in one line, whatever they are."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.batches import Timesteps
from unequal.timesteps.densities import asymmetric, curriculum, gaussian_target, masses, uniform_time
from unequal.timesteps.draws import LowDiscrepancy, Mirrored, Stratified
from unequal.timesteps.information import InfoNoiseSampler
from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler, LossSecondMomentSampler
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, WeightedSampler, normalised, tilt, uniform, within

T = 50
HALVES = Partition([(0, 24), (25, 49)])
ANY = st.floats() | st.sampled_from([0.0, -1.0, math.nan, math.inf, -math.inf, 1e308])


@given(st.lists(ANY, max_size=6), st.booleans())
def test_a_sampler_has_a_density_or_is_refused(values: list[float], unbiased: bool) -> None:
    try:
        sampler = TimestepSampler(np.array(values), unbiased)
    except UserError as error:
        line = str(error)
    else:
        line = ""
    if line:
        assert "\n" not in line
        return
    assert min(values) >= 0 and sum(values) == pytest.approx(1, abs=1e-5)
    batch = sampler.sample(np.random.default_rng(0).random((4, 8)))
    assert (np.array(values)[batch.timesteps] > 0).all() and np.isfinite(batch.weights).all()


@given(st.lists(ANY, max_size=6))
def test_what_is_normalised_is_a_density(values: list[float]) -> None:
    try:
        TimestepSampler(normalised(np.array(values)))
    except UserError:
        assert not (0 < sum(values) < math.inf and min(values) >= 0)


STATES: dict[str, Any] = {
    "uniform": lambda: TimestepSampler(uniform(T)),
    "loss_second_moment": lambda: LossSecondMomentSampler(T, history=2, uniform_share=0.1, unbiased=True),
    "easy_to_hard": lambda: EasyToHardSampler(HALVES, 8),
    "adaptive": lambda: AdaptiveSampler(HALVES, refresh_images=8, images_per_bin=2, memory=0.5, uniform_share=0.1),
    "info_noise": lambda: InfoNoiseSampler(
        NoiseSchedule.linear(T).snr.log().numpy(), HALVES, half_life=10, warmup_images=20, uniform_share=0.1
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_the_state_of_another_sampler_is_refused(name: str) -> None:
    sampler = STATES[name]()
    sampler.load_state_dict(sampler.state_dict())
    for other, make in STATES.items():
        if other != name:
            assert "another sampler" in refusal(sampler.load_state_dict, make().state_dict())
    for size in (3, 20):
        larger = LossSecondMomentSampler(size, history=2, uniform_share=0.1, unbiased=True).state_dict()
        assert "another sampler" in refusal(sampler.load_state_dict, larger)
    assert "another sampler" in refusal(sampler.load_state_dict, {"moments": 3, "stage": -1})


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: TimestepSampler(np.ones(T), unbiased=True), "probabilities that sum to 50; allowed: 1"),
        (lambda: TimestepSampler(np.full((2, 2), 0.25)), "shape [2, 2]; allowed: numbers [T]"),
        (lambda: TimestepSampler(np.array(["a"])), "allowed: numbers [T]"),
        (
            lambda: TimestepSampler(uniform(T), draw="low_discrepancy"),
            "draw: 'low_discrepancy'; allowed: Independent()",
        ),
        (lambda: TimestepSampler(uniform(T), draw=LowDiscrepancy), "allowed: Independent()"),
        (lambda: TimestepSampler(uniform(T + 1), draw=Stratified(HALVES)), "strata end at t = 49"),
        (lambda: TimestepSampler(uniform(T), draw=Mirrored(np.arange(T) + 1)), "a mirror of 50 timesteps; allowed"),
        (lambda: TimestepSampler(uniform(T)).sample(np.full((4, 2), math.nan)), "allowed: [4, B], in [0, 1)"),
        (lambda: TimestepSampler(uniform(T)).sample(np.zeros(3)), "allowed: [4, B], in [0, 1)"),
        (lambda: WeightedSampler(-uniform(T)), "a probability of -0.02 at t = 0"),
        (lambda: uniform(0), "0 timesteps; allowed: from 1"),
        (lambda: normalised(tilt(T, math.nan)), "timestep weights must be finite"),
        (lambda: within(HALVES[1], 7), "are no range within 0 … 6"),
        (lambda: masses(uniform_time, NoiseSchedule.linear(T), 1.0, "opened"), "ends: 'opened'"),
        (lambda: masses(uniform_time, NoiseSchedule.linear(T), -1.0, "open"), "shift: -1.0; allowed"),
        (lambda: gaussian_target(T, 0.3, math.nan), "allowed: mean in [0, 1), std above 0"),
        (lambda: curriculum(uniform(T), ramp_images=math.nan, uniform_share=0.1), "a ramp of nan images"),
        (lambda: asymmetric(T, 0.5, -2.0), "a ratio of -2.0; allowed"),
        (lambda: Timesteps(TimestepSampler(uniform(T)), loss_weights=[math.nan] * T), "finite and not negative"),
        (lambda: Timesteps(TimestepSampler(uniform(T)), seed=-1), "seed: -1; allowed: from 0"),
        (lambda: Timesteps(TimestepSampler(uniform(T))).draw(-1), "a batch of -1 images; allowed: from 1"),
        (lambda: Timesteps(TimestepSampler(uniform(T))).load_state_dict({"seed": 0}), "no state of draws"),
    ],
)
def test_what_no_object_can_mean_is_refused(call: Any, named: str) -> None:
    assert named in refusal(call)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_losses_that_are_no_numbers_are_not_learned_from(value: float) -> None:
    drawing = Timesteps(LossSecondMomentSampler(T, history=2, uniform_share=0.1, unbiased=True))
    drawing.draw(4)
    assert "NaN or infinite" in refusal(drawing.learn, torch.full((4,), value))
    drawing.learn(torch.ones(4))
