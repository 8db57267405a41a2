"""Trainings of arms: what is the same in images, which timesteps they see, and from which models they go on."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from studies.small_batches.densities import Densities, sampler_of
from studies.small_batches.params import Params
from studies.small_batches.training import job_of
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.draws import Stratified
from unequal.timesteps.partition import Partition
from unequal.timesteps.samplers import TimestepSampler, WeightedSampler

PARAMS = Params.read(Path(__file__).parents[1] / "params.yaml")
SLOTS = Partition([(0, 4), (5, 20), (21, 49)])
SCHEDULE = NoiseSchedule.linear(50)
DATA = cast(PreparedData, None)


def densities(**changes: Any) -> Densities:
    found: dict[str, Any] = {
        "slots": SLOTS,
        "cells": SLOTS,
        "second_moments": (9.0, 4.0, 1.0),
        "second_moments_stderr": (0.1, 0.1, 0.1),
        "uniform_share": 0.1,
        "scout": {"images": 100},
    }
    return Densities.model_validate_json(Densities.model_construct(**(found | changes)).model_dump_json())


def job(arm: str, **changes: Any) -> Any:
    chosen = PARAMS.arms[arm].model_copy(update=changes)
    return job_of(arm, PARAMS.recipes[arm], chosen, PARAMS.training, DATA, 0)


def test_batches_change_and_images_stay() -> None:
    large, small = job("batch_128"), job("batch_8")
    assert (large.training.batch_size, small.training.batch_size) == (128, 8)
    assert large.recipe.optimizer.betas[1] == pytest.approx(small.recipe.optimizer.betas[1] ** 16)
    assert large.training.log_every * 128 == small.training.log_every * 8
    for name in ("warmup_images", "decay"):
        assert getattr(large.recipe.optimizer, name) == getattr(small.recipe.optimizer, name)
    assert large.training.average == small.training.average


def sampler(arm: str) -> Any:
    return sampler_of(PARAMS.arms[arm], PARAMS.recipes[arm], SCHEDULE, densities())


def test_arms_draw_by_their_densities_or_weigh_by_them() -> None:
    assert isinstance(sampler("stratified").draw, Stratified)
    kinds = {arm: type(sampler(arm)) for arm in PARAMS.arms}
    assert kinds["batch_8"] is kinds["least_variance"] is TimestepSampler
    assert kinds["stratified_weights"] is kinds["least_variance_weights"] is WeightedSampler
    for density in ("stratified", "least_variance"):
        drawn, weighted = sampler(density), sampler(f"{density}_weights")
        # Drawn and weighted back, every timestep counts alike; weighted, as it would be drawn.
        np.testing.assert_allclose(drawn.probabilities * drawn.importance(), 1 / 50)
        np.testing.assert_allclose(weighted.probabilities * weighted.importance(), drawn.probabilities)
    assert sampler("least_variance").probabilities[0] > sampler("batch_8").probabilities[0]
