"""Random numbers that are functions of their keys."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from unequal import randomness
from unequal.randomness import (
    Stream,
    noise_of,
    numpy_generator,
    permutation,
    philox,
    philox_kernel,
    random_words,
    torch_seed,
    uniform_of,
    uniforms_of,
)

WORDS = st.integers(0, 2**32 - 1)
KEYS = st.tuples(WORDS, st.sampled_from(Stream), WORDS)
#: Random123's known answers of philox4x32-10: counter, key, result.
KNOWN = [
    ((0,) * 4, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
@pytest.mark.parametrize("array", [np.array, torch.tensor])
def test_philox_gives_its_known_answers(array, counter, key, words):
    assert tuple(word.item() for word in philox([array([word]) for word in counter], key)) == words
    # The second and the fourth word may be plain numbers.
    mixed = philox([array([counter[0]]), counter[1], array([counter[2]]), counter[3]], key)
    assert tuple(word.item() for word in mixed) == words


@given(KEYS)
def test_a_key_draws_the_same_whatever_was_drawn_before(key):
    first = numpy_generator(*key).random(4), noise_of((4,), [3], *key)
    other, untouched = (*key[:-1], key[-1] ^ 1), torch.get_rng_state()
    np.random.default_rng().random(3)
    numpy_generator(*other).random(7)
    noise_of((7,), [3], *other)
    again = numpy_generator(*key).random(4), noise_of((4,), [3], *key)
    np.testing.assert_array_equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert torch.equal(torch.get_rng_state(), untouched)


def test_seeds_streams_and_steps_each_make_a_difference():
    keys = [(seed, stream, step) for seed in range(3) for stream in Stream for step in range(10)]
    assert len({torch_seed(*key) for key in keys}) == len(keys)
    assert len({tuple(random_words(1, [0], key, "cpu").flatten().tolist()) for key in keys}) == len(keys)


def test_draws_do_not_change_between_versions():
    """A run of last year is repeated from its seed: these numbers may never change."""
    assert torch_seed(0, Stream.NOISE, 0) == 8597659618385908031
    np.testing.assert_array_equal(numpy_generator(0, Stream.SHUFFLE, 0).permutation(5), [2, 4, 3, 0, 1])
    assert random_words(1, [7], (0, Stream.NOISE, 0), "cpu").flatten().tolist() == WORDS_OF_IMAGE_7


#: Words of image 7 by seed 0, noise, step 0.
WORDS_OF_IMAGE_7 = [207629852, 3465175280, 598469525, 950172323]


def test_noise_is_box_and_mullers_of_its_words():
    a, b, c, d = ((word + 0.5) / 2**32 for word in WORDS_OF_IMAGE_7)
    turn = 2 * math.pi / 2**33  # the angle has no half in it
    radii, angles = (math.sqrt(-2 * math.log(u)) for u in (a, b)), (2 * math.pi * u - turn for u in (c, d))
    pairs = [(r * math.cos(w), r * math.sin(w)) for r, w in zip(radii, angles, strict=True)]
    wanted = torch.tensor([value for pair in pairs for value in pair])
    torch.testing.assert_close(noise_of((4,), [7], 0, Stream.NOISE, 0)[0], wanted, rtol=2e-7, atol=0)


@given(st.lists(st.integers(0, 9), max_size=3).map(sorted), st.sampled_from([(1, 8, 8), (3, 5, 1), (1,), (2, 0)]))
def test_noise_is_the_same_bytes_however_a_batch_is_cut(cuts, shape):
    edges, ids = [0, *cuts, 9], range(5, 14)
    parts = [noise_of(shape, ids[a:b], 1, Stream.NOISE, 2) for a, b in pairwise(edges)]
    assert torch.equal(torch.cat(parts), noise_of(shape, ids, 1, Stream.NOISE, 2))
    coins = [uniform_of(ids[a:b], 1, Stream.FLIPS, 2) for a, b in pairwise(edges)]
    assert torch.equal(torch.cat(coins), uniform_of(ids, 1, Stream.FLIPS, 2))


def test_large_draws_are_made_in_parts(monkeypatch):
    whole = noise_of((3, 7), range(11), 4)
    monkeypatch.setattr(randomness, "VALUES_AT_ONCE", 50)
    assert torch.equal(noise_of((3, 7), np.arange(11), 4), whole)


def test_images_of_any_number_have_noise_of_their_own():
    ids = [0, 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1]
    noise = noise_of((4,), ids, 0)
    assert len({tuple(row) for row in noise.tolist()}) == len(ids)
    assert torch.equal(noise_of((4,), ids[-1:], 0)[0], noise[-1])


def test_noise_is_standard_normal_and_independent():
    """Within four standard deviations of each statistic, over places, images, steps and streams."""
    keys = [(0, Stream.NOISE, 0), (0, Stream.NOISE, 1), (1, Stream.NOISE, 0), (0, Stream.SAMPLE_START, 0)]
    draws = torch.stack([noise_of((64,), range(1000), *key) for key in keys]).double()
    n = draws[0].numel()
    for one in draws:
        moments = [float((one**power).mean()) for power in (1, 2, 3, 4)]
        spreads = [1, 2**0.5, 15**0.5, 96**0.5]
        for found, wanted, spread in zip(moments, (0, 1, 0, 3), spreads, strict=True):
            assert found == pytest.approx(wanted, abs=4 * spread / n**0.5)
        tail = float((one.abs() > 3).double().mean())
        assert tail == pytest.approx(math.erfc(3 / 2**0.5), abs=4 * (0.0027 / n) ** 0.5)
        assert abs(float((one[:-1] * one[1:]).mean())) < 4 / n**0.5
        assert abs(float((one[:, :-1] * one[:, 1:]).mean())) < 4 / n**0.5
    products = draws.flatten(1) @ draws.flatten(1).T / n
    assert float(products.fill_diagonal_(0).abs().max()) < 4 / n**0.5


def test_uniform_draws_are_uniform():
    draws = uniforms_of(range(16_000), 0, Stream.FLIPS, 0)
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.histogram(draws, 64, (0, 1))[0]
    # χ² of 63 degrees of freedom, with a standard deviation of √126.
    assert float(((counts - 1000) ** 2 / 1000).sum()) == pytest.approx(63, abs=4 * 126**0.5)


@pytest.mark.parametrize("window", [1, 4, 7])
def test_all_orders_are_equally_likely_where_no_neighbours_are_kept_together(window):
    counts = Counter(tuple(permutation(4, window, seed).tolist()) for seed in range(4800))
    assert all(sorted(order) == [0, 1, 2, 3] for order in counts)
    assert len(counts) == 24
    assert stats.chisquare([*counts.values()]).pvalue > 1e-3


@pytest.mark.gpu
def test_a_gpu_draws_the_same_integers_and_nearly_the_same_normals():
    key, ids = (3, Stream.NOISE, 5), range(7, 1007)
    assert philox_kernel() is not None
    for numbers in (ids, [0, 2**32, 2**63 - 1]):
        assert torch.equal(random_words(48, numbers, key, "cuda").cpu(), random_words(48, numbers, key, "cpu"))
    on_gpu, on_cpu = noise_of((192,), ids, *key, device="cuda").cpu(), noise_of((192,), ids, *key)
    torch.testing.assert_close(on_gpu, on_cpu, rtol=2e-7, atol=0)
    assert float((on_gpu != on_cpu).double().mean()) < 1e-5
