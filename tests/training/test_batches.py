"""A batch is a pure function of (seed, step), however it is cut and in whatever order it is asked for."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from specs import class_labels, dropped_labels
from torch import Tensor

from unequal.data.prepared import PreparedData, tensor_of
from unequal.models.conditions import condition_of
from unequal.timesteps.samplers import TimestepSampler, normalised, tilt, uniform
from unequal.training.batches import WINDOW_BYTES, Batch, BatchSource, image_indices, window_of

# Image i is known by its pixels: all are i, and the first column is brighter.
IMAGES = torch.arange(10, dtype=torch.uint8).reshape(10, 1, 1, 1).repeat(1, 1, 4, 4)
IMAGES[..., 0] += 100


def source(seed: int = 0, batch_size: int = 6, flips: bool = False, images: Tensor = IMAGES) -> BatchSource:
    sampler = TimestepSampler(normalised(tilt(50, 1.0)), True)
    return BatchSource(images, batch_size, sampler, seed, flips, torch.device("cpu"))


def fields(batch: Batch) -> list[Tensor]:
    return [batch.x0, batch.epsilon, batch.timesteps, batch.weights]


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(fields(one), fields(other), strict=True))


def test_draws_leave_torchs_own_generator_alone():
    before = torch.get_rng_state()
    source(flips=True).draw(0)
    assert torch.equal(before, torch.get_rng_state())


@given(st.integers(0, 50), st.lists(st.integers(0, 6), max_size=3).map(sorted), st.booleans())
def test_parts_make_the_whole(step, cuts, flips):
    edges = [0, *cuts, 6]
    one = source(flips=flips)
    parts = [one.draw(step, slice(a, b)) for a, b in pairwise(edges) if a < b]
    whole = one.draw(step)
    for joined, field in zip(zip(*map(fields, parts), strict=True), fields(whole), strict=True):
        assert torch.equal(torch.cat(joined), field)


def test_another_seed_or_step_is_another_batch():
    for one, other in combinations([source(seed).draw(step) for seed in (0, 1) for step in (0, 1)], 2):
        assert not torch.equal(one.epsilon, other.epsilon)
        assert not torch.equal(one.timesteps, other.timesteps)


def test_labels_belong_to_their_images():
    labels, named = torch.arange(len(IMAGES)), IMAGES.clone()
    named[:, 0, 0, 0] = labels
    labelled = replace(source(images=named), labels=labels)
    batches = [labelled.draw(2), labelled.draw(2, slice(1, 4)), labelled.measured(3, np.array([0, 5, 9]))]
    for batch in batches:
        assert batch.labels is not None
        assert torch.equal(batch.labels, ((batch.x0[:, 0, 0, 0] + 1) * 127.5).round().long())
    assert same(replace(labelled.draw(2), labels=None), source(images=named).draw(2))


def test_importance_weights_belong_to_their_timesteps():
    batch = source(batch_size=200).draw(0)
    # p_t ∝ t + ½, so that (1/T)/p_t = (T/2)/(t + ½).
    torch.testing.assert_close(batch.weights, 25 / (batch.timesteps + 0.5))


def test_flips_mirror_about_half_of_the_images_and_nothing_else():
    plain, flipped = source(batch_size=400).draw(0), source(batch_size=400, flips=True).draw(0)
    mirrored = (flipped.x0 == plain.x0.flip(-1)).flatten(1).all(1)
    untouched = (flipped.x0 == plain.x0).flatten(1).all(1)
    assert bool((mirrored ^ untouched).all())
    assert 150 < int(mirrored.sum()) < 250
    assert torch.equal(plain.epsilon, flipped.epsilon)


def test_an_image_is_not_always_flipped():
    one, left_is_bright = source(batch_size=10, flips=True), set()
    for step in range(12):
        place = image_indices(0, step, 10, 10).tolist().index(3)
        row = one.draw(step).x0[place, 0, 0]
        left_is_bright.add(bool(row[0] > row[3]))
    assert left_is_bright == {True, False}


@pytest.mark.parametrize("window", [None, 3])
def test_what_is_gathered_ahead_is_what_is_gathered_when_asked_for(window):
    late = source(batch_size=5)
    late, early = (replace(late, window=window, prefetch=prefetch) for prefetch in (False, True))
    for step in (0, 1, 2, 7, 8, 0):
        for part in (slice(0, 2), slice(2, 5)):
            assert same(early.draw(step, part), late.draw(step, part))


@pytest.mark.gpu
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
def test_a_gpu_sees_the_same_batch(resident, prefetch):
    device = torch.device("cuda")
    images = IMAGES.to(device) if resident else IMAGES
    on_gpu = replace(source(flips=True), images=images, device=device, prefetch=prefetch)
    for step in (0, 1, 2):
        found = fields(on_gpu.draw(step))
        assert all(one.is_cuda for one in found)
        for one, other in zip(found, fields(source(flips=True).draw(step)), strict=True):
            torch.testing.assert_close(one.cpu(), other, rtol=2e-7, atol=1e-7)  # near 0 of [-1, 1]


@given(st.integers(1, 25), st.integers(1, 12), st.integers(0, 3), st.none() | st.integers(1, 30))
def test_every_epoch_holds_every_image_once(images, batch_size, seed, window):
    steps = -(-2 * images // batch_size)
    order = torch.cat([image_indices(seed, step, batch_size, images, window) for step in range(steps)]).tolist()
    for epoch in range(2):
        assert sorted(order[epoch * images : (epoch + 1) * images]) == list(range(images))


@pytest.mark.parametrize("window", [None, 6])
def test_epochs_have_orders_of_their_own(window):
    first, second = (image_indices(0, step, 40, 20, window) for step in range(2))
    orders = [first[:20], first[20:], second[:20], second[20:]]
    assert len({tuple(order.tolist()) for order in orders}) == 4


@given(st.integers(1, 40), st.integers(1, 50), st.none() | st.integers(1, 60))
def test_a_step_has_its_images_whatever_was_asked_before(batch_size, step, window):
    whole = torch.cat([image_indices(1, s, batch_size, 50, window) for s in range(step + 1)])
    assert torch.equal(image_indices(1, step, batch_size, 50, window), whole[step * batch_size :])


def test_a_window_is_a_stretch_of_neighbours():
    windows = image_indices(0, 0, 1000, 1000, 100).reshape(10, 100).numpy()
    assert sum(np.ptp(images) == 99 for images in windows) >= 9  # one of them may lie across the end
    assert not any((np.diff(images) > 0).all() for images in windows)


@pytest.mark.gpu
@pytest.mark.parametrize("window", [None, 100])
def test_a_gpu_takes_the_same_images(window):
    for step in range(3):
        found = image_indices(0, step, 400, 1000, window, "cuda")
        assert torch.equal(found.cpu(), image_indices(0, step, 400, 1000, window))


def test_only_large_sets_are_shuffled_in_windows():
    cifar, imagenet = (60_000, 3 * 32 * 32), (1_281_167, 3 * 64 * 64)
    assert window_of(*cifar) is None
    assert window_of(*imagenet) == WINDOW_BYTES // imagenet[1]
    assert window_of(100, 1 << 30) == 1


def labelled_source(prepared: PreparedData, seed: int = 3, batch_size: int = 200) -> BatchSource:
    images, sampler = tensor_of(prepared.train), TimestepSampler(uniform(50))
    return BatchSource(images, batch_size, sampler, seed, True, torch.device("cpu"), labels=prepared.labels_of("train"))


def test_a_share_of_the_labels_becomes_the_null_class_and_nothing_else_changes(prepared):
    plain = labelled_source(prepared)
    withheld, count = replace(plain, condition=condition_of(dropped_labels(2, 0.1))), 0
    for step in range(20):
        before, after = plain.draw(step), withheld.draw(step)
        gone = after.labels == 2
        assert torch.equal(after.labels[~gone], before.labels[~gone])
        for name in ("x0", "epsilon", "timesteps", "weights"):
            assert torch.equal(getattr(after, name), getattr(before, name))
        count += int(gone.sum())
    # Of 4000 coins with p = 0.1, four standard deviations are 76.
    assert abs(count - 400) < 76


def test_processes_and_resumed_trainings_withhold_the_same(prepared):
    plain, half = labelled_source(prepared), condition_of(dropped_labels(2, 0.5))
    whole, again = replace(plain, condition=half).draw(7), replace(labelled_source(prepared), condition=half)
    parts = [again.draw(7, part).labels for part in (slice(0, 70), slice(70, 200))]
    assert torch.equal(torch.cat(parts), whole.labels)
    other = replace(labelled_source(prepared, seed=4), condition=half).draw(7)
    assert not torch.equal(other.labels == 2, whole.labels == 2)
    without = replace(plain, condition=condition_of(class_labels(2))).draw(7)
    assert torch.equal(without.labels, plain.draw(7).labels), "without dropout"
