"""A trial's settings follow its batch so that trials compare at equal images."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.grid.trial import recipe_at, training_at
from unequal.settings.loss_weights import NoWeight
from unequal.settings.recipe import Optimizer, Recipe
from unequal.settings.samplers import Uniform
from unequal.settings.training import ExponentialAverage, Training

RECIPE = Recipe(
    images=1000,
    prediction="epsilon",
    sampler=Uniform(density="uniform"),
    loss_weight=NoWeight(kind="none"),
    optimizer=Optimizer(lr=1e-3, betas=(0.9, 0.999), weight_decay=0.0, warmup_images=10, decay="constant"),
)


@given(size=st.integers(1, 64), parts=st.integers(1, 8))
def test_averages_and_intervals_are_kept_in_images(
    training_settings: Callable[..., Training], size: int, parts: int
) -> None:
    horizon = ExponentialAverage(kind="exponential", decay=0.99)
    before = training_settings(batch_size=32, average=horizon, log_every=8, checkpoint_every=32)
    after = training_at(before, f"{size}x{parts}", 32)
    assert (after.batch_size, after.gradient_accumulation) == (size * parts, parts)
    # What is left of a weight after so many images is the same.
    assert isinstance(after.average, ExponentialAverage)
    assert after.average.decay ** (1 / after.batch_size) == pytest.approx(0.99 ** (1 / 32))
    assert after.log_every * after.batch_size <= max(8 * 32, after.batch_size)
    assert Training.model_validate(after.model_dump()) == after


def test_a_share_of_the_training_is_the_same_at_any_batch(training_settings: Callable[..., Training]) -> None:
    before = training_settings(batch_size=32, average={"kind": "power", "width": 0.1})
    assert training_at(before, "4x2", 32).average == before.average


def test_an_average_of_the_recipes_own_is_kept_in_images_too() -> None:
    own = RECIPE.model_copy(update={"average": ExponentialAverage(kind="exponential", decay=0.99)})
    found = recipe_at(own, "4x2", 32, "none").average
    assert isinstance(found, ExponentialAverage)
    assert found.decay ** (1 / 8) == pytest.approx(0.99 ** (1 / 32))
    assert recipe_at(own, "32x1", 32, "none") == own


def test_at_the_reference_batch_nothing_changes(training_settings: Callable[..., Training]) -> None:
    before = training_settings(batch_size=32, average={"kind": "exponential", "decay": 0.99})
    assert training_at(before, "32x1", 32) == before
    assert all(recipe_at(RECIPE, "32x1", 32, scaling) == RECIPE for scaling in ("none", "sqrt", "linear"))


def test_the_learning_rate_follows_the_batch() -> None:
    rates = {s: recipe_at(RECIPE, "4x2", 32, s).optimizer.lr for s in ("none", "sqrt", "linear")}
    assert rates == pytest.approx({"none": 1e-3, "sqrt": 1e-3 / 2, "linear": 1e-3 / 4})
    assert math.isclose(recipe_at(RECIPE, "8x1", 32, "sqrt").optimizer.lr, rates["sqrt"])
