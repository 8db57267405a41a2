"""Sets cut anew into batches hold the same images; noise drawn in parts is the noise that is drawn at once."""

import tracemalloc
from collections.abc import Iterator
from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unequal.evaluation.sets import ImageSet, Reference, noise
from unequal.randomness import numpy_generator

SHAPE = (3, 4, 4)


@given(st.lists(st.integers(0, 20), max_size=8), st.integers(1, 15))
def test_batches_hold_the_parts_end_to_end(lengths, size):
    images = np.random.default_rng(0).integers(0, 256, (sum(lengths), 1, 2, 2), dtype=np.uint8)
    found = list(ImageSet(len(images), lambda: np.split(images, np.cumsum(lengths))).batches(size))
    assert np.array_equal(np.concatenate([images[:0], *found]), images)
    assert all(len(batch) == size for batch in found[:-1])
    assert all(1 <= len(batch) <= size for batch in found)


def test_the_first_images_take_no_more_parts_than_needed():
    def parts() -> Iterator[np.ndarray]:
        yield from (np.full((4, 1, 2, 2), value, np.uint8) for value in (1, 2))
        raise AssertionError("read on")

    assert ImageSet(100, parts).first(6).mean(axis=(1, 2, 3)).tolist() == [1, 1, 1, 1, 2, 2]
    assert len(ImageSet.of(np.zeros((3, 1, 2, 2), np.uint8)).first(5)) == 3


def test_noise_is_that_of_one_draw():
    images = noise(150, SHAPE, partial(numpy_generator, 7, 8))
    whole = np.clip(numpy_generator(7, 8).normal(127.5, 127.5, (150, *SHAPE)), 0, 255).astype(np.uint8)
    for _ in range(2):
        assert np.array_equal(np.concatenate(list(images.batches(32))), whole)
    assert len(images) == 150


def test_noise_of_many_images_takes_the_memory_of_a_few():
    images = noise(640, (3, 32, 32), partial(numpy_generator, 0, 0))
    tracemalloc.start()
    try:
        count = sum(len(batch) for batch in images.batches())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 640
    # 15.7 MB in float64 at once; 64 of them, clipped, twice 1.6 MB.
    assert peak < 5e6


def test_choice_and_report_share_no_image(prepared):
    choice, report = (Reference.of(prepared, half) for half in ("holdout_choice", "holdout_report"))
    first, second = ({one.tobytes() for one in half.images} for half in (choice, report))
    assert len(choice.images) + len(report.images) == len(prepared.holdout)
    assert first | second == {one.tobytes() for one in prepared.holdout}
    assert not first & second
    assert choice.name != report.name
