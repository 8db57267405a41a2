"""The order of images: every image once an epoch, neighbours together where a disk reads them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.training.batches import WINDOW_BYTES, image_indices, window_of


@given(st.integers(1, 25), st.integers(1, 12), st.integers(0, 3), st.none() | st.integers(1, 30))
def test_every_epoch_holds_every_image_once(images: int, batch_size: int, seed: int, window: int | None) -> None:
    steps = -(-2 * images // batch_size)
    order = np.concatenate([image_indices(seed, step, batch_size, images, window) for step in range(steps)])
    for epoch in range(2):
        assert sorted(order[epoch * images : (epoch + 1) * images]) == list(range(images))


@pytest.mark.parametrize("window", [None, 6])
def test_epochs_have_orders_of_their_own(window: int | None) -> None:
    first, second = (image_indices(0, step, 40, 20, window) for step in range(2))
    orders = [first[:20], first[20:], second[:20], second[20:]]
    assert len({tuple(order) for order in orders}) == 4


@given(st.integers(1, 40), st.integers(1, 50), st.none() | st.integers(1, 60))
def test_a_step_has_its_images_whatever_was_asked_before(batch_size: int, step: int, window: int | None) -> None:
    whole = np.concatenate([image_indices(1, s, batch_size, 50, window) for s in range(step + 1)])
    np.testing.assert_array_equal(image_indices(1, step, batch_size, 50, window), whole[step * batch_size :])


def test_a_window_is_a_stretch_of_neighbours() -> None:
    found = image_indices(0, 0, 1000, 1000, 100).reshape(10, 100)
    stretches = 0
    for images in found:
        first = images.min()
        stretches += sorted(images) == list(range(first, first + 100))
        assert sorted(images) != list(images)
    assert stretches >= 9  # one of them may lie across the end


def test_windows_and_their_borders_change_from_epoch_to_epoch() -> None:
    epochs = [image_indices(0, step, 1000, 1000, 100).reshape(10, 100) for step in range(4)]
    borders = {int(epoch[0].min()) % 100 for epoch in epochs}
    assert len(borders) > 1
    assert len({tuple(epoch.min(1) // 100) for epoch in epochs}) == 4


def test_only_large_sets_are_shuffled_in_windows() -> None:
    cifar, imagenet = (60_000, 3 * 32 * 32), (1_281_167, 3 * 64 * 64)
    assert window_of(*cifar) is None
    assert window_of(*imagenet) == WINDOW_BYTES // imagenet[1]
    assert window_of(100, 1 << 30) == 1
