"""Optimizers at other batches: settings in images stay."""

from math import log

import pytest

from unequal.settings.recipe import Optimizer
from unequal.training.batch_size import optimizer_at_batch


@pytest.mark.parametrize("batch", [8, 32, 128, 512])
def test_the_second_moment_forgets_half_in_as_many_images(batch: int) -> None:
    settings = Optimizer(lr=1e-3, betas=(0.9, 0.995), weight_decay=0.0, warmup_images=0, decay="constant")
    found = optimizer_at_batch(settings, batch / 128)
    images = [size * log(0.5) / log(one.betas[1]) for size, one in ((128, settings), (batch, found))]
    assert images[0] == pytest.approx(images[1])
    assert found.betas[0] == 0.9
    assert found.model_copy(update={"betas": settings.betas}) == settings
