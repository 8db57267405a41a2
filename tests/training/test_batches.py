"""A batch is a pure function of (seed, step), however it is cut and in whatever order it is asked for."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unequal.timesteps.samplers import TimestepSampler, normalised, tilt
from unequal.training.batches import Batch, BatchSource, image_indices

# Image i is told by its pixels: all are i, and the first column is brighter.
IMAGES = torch.arange(10, dtype=torch.uint8).reshape(10, 1, 1, 1).repeat(1, 1, 4, 4)
IMAGES[..., 0] += 100


def source(seed: int = 0, batch_size: int = 6, flips: bool = False, images: Tensor = IMAGES) -> BatchSource:
    sampler = TimestepSampler(normalised(tilt(50, 1.0)), True)
    return BatchSource(images, batch_size, sampler, seed, flips, torch.device("cpu"))


def fields(batch: Batch) -> list[Tensor]:
    return [batch.x0, batch.epsilon, batch.timesteps, batch.weights]


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(fields(one), fields(other), strict=True))


def test_shapes_and_types() -> None:
    batch = source().draw(3)
    assert [tuple(field.shape) for field in fields(batch)] == [(6, 1, 4, 4), (6, 1, 4, 4), (6,), (6,)]
    assert [field.dtype for field in fields(batch)] == [torch.float32, torch.float32, torch.int64, torch.float32]
    assert -1 <= batch.x0.min() < batch.x0.max() <= 1


def test_steps_may_be_asked_for_in_any_order() -> None:
    forwards = [source().draw(step) for step in range(5)]
    one = source()
    backwards = [one.draw(step) for step in reversed(range(5))]
    assert all(same(a, b) for a, b in zip(forwards, reversed(backwards), strict=True))


def test_draws_leave_torchs_own_generator_alone() -> None:
    before = torch.get_rng_state()
    source(flips=True).draw(0)
    assert torch.equal(before, torch.get_rng_state())


@given(st.integers(0, 50), st.lists(st.integers(0, 6), max_size=3).map(sorted), st.booleans())
def test_parts_make_the_whole(step: int, cuts: list[int], flips: bool) -> None:
    edges = [0, *cuts, 6]
    one = source(flips=flips)
    parts = [one.draw(step, slice(a, b)) for a, b in pairwise(edges) if a < b]
    whole = one.draw(step)
    for joined, field in zip(zip(*map(fields, parts), strict=True), fields(whole), strict=True):
        assert torch.equal(torch.cat(joined), field)


def test_another_seed_or_step_is_another_batch() -> None:
    batches = [source(seed).draw(step) for seed in (0, 1) for step in (0, 1)]
    for i in range(4):
        for j in range(i):
            assert not torch.equal(batches[i].epsilon, batches[j].epsilon)
            assert not torch.equal(batches[i].timesteps, batches[j].timesteps)


def test_labels_belong_to_their_images() -> None:
    labels, named = torch.arange(len(IMAGES)), IMAGES.clone()
    named[:, 0, 0, 0] = labels
    labelled = replace(source(images=named), labels=labels)
    batches = [labelled.draw(2), labelled.draw(2, slice(1, 4)), labelled.measured(3, np.array([0, 5, 9]))]
    for batch in batches:
        assert batch.labels is not None
        assert torch.equal(batch.labels, ((batch.x0[:, 0, 0, 0] + 1) * 127.5).round().long())
    assert same(replace(labelled.draw(2), labels=None), source(images=named).draw(2))


def test_importance_weights_belong_to_their_timesteps() -> None:
    batch = source(batch_size=200).draw(0)
    # p_t ∝ t + ½, so that (1/T)/p_t = (T/2)/(t + ½).
    torch.testing.assert_close(batch.weights, 25 / (batch.timesteps + 0.5))


def test_noise_is_standard_normal() -> None:
    noise = source(batch_size=2000, images=IMAGES).draw(0).epsilon
    assert abs(float(noise.mean())) < 4 / noise.numel() ** 0.5
    assert float(noise.var()) == pytest.approx(1, abs=4 * (2 / noise.numel()) ** 0.5)


def test_flips_mirror_about_half_of_the_images_and_nothing_else() -> None:
    plain, flipped = source(batch_size=400).draw(0), source(batch_size=400, flips=True).draw(0)
    mirrored = (flipped.x0 == plain.x0.flip(-1)).flatten(1).all(1)
    untouched = (flipped.x0 == plain.x0).flatten(1).all(1)
    assert bool((mirrored ^ untouched).all())
    assert 150 < int(mirrored.sum()) < 250
    assert torch.equal(plain.epsilon, flipped.epsilon)


def test_an_image_is_not_always_flipped_alike() -> None:
    one = source(batch_size=10, flips=True)
    left_is_bright = []
    for step in range(12):
        x0 = one.draw(step).x0
        ids = image_indices(0, step, 10, 10)
        left_is_bright.append(bool(x0[list(ids).index(3), 0, 0, 0] > x0[list(ids).index(3), 0, 0, 3]))
    assert set(left_is_bright) == {True, False}


def test_images_may_be_mapped_from_disk(tmp_path) -> None:  # type: ignore[no-untyped-def]
    np.save(tmp_path / "a.npy", IMAGES.numpy())
    mapped = torch.from_numpy(np.load(tmp_path / "a.npy", mmap_mode="c"))
    assert same(source(images=mapped).draw(2), source().draw(2))


@pytest.mark.parametrize("window", [None, 3])
def test_what_is_gathered_ahead_is_what_is_gathered_when_asked_for(window: int | None) -> None:
    late = source(batch_size=5)
    late, early = (replace(late, window=window, prefetch=prefetch) for prefetch in (False, True))
    for step in (0, 1, 2, 7, 8, 0):
        for part in (slice(0, 2), slice(2, 5)):
            assert same(early.draw(step, part), late.draw(step, part))


@pytest.mark.gpu
@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("prefetch", [False, True])
def test_a_gpu_sees_the_same_batch(resident: bool, prefetch: bool) -> None:
    device = torch.device("cuda")
    images = IMAGES.to(device) if resident else IMAGES
    on_gpu = replace(source(flips=True), images=images, device=device, prefetch=prefetch)
    for step in (0, 1, 2):
        for one, other in zip(fields(on_gpu.draw(step)), fields(source(flips=True).draw(step)), strict=True):
            assert one.is_cuda
            assert torch.equal(one.cpu(), other)
