"""Merging by task vectors: its fixed points, linearity, and what does not fit."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal
from torch import Tensor

from unequal.models.weights import merge, shares, task_vector

SHAPES = {"conv.weight": (2, 3, 3), "conv.bias": (2,), "norm": (4,)}


def weights(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=4))
def test_merging_is_the_weighted_sum_of_what_was_learned(chosen):
    base, experts = weights(0), [weights(seed) for seed in range(1, len(chosen) + 1)]
    found = merge(base, iter(experts), chosen).weights
    for name, start in base.items():
        expected = start + sum(w * (expert[name] - start) for w, expert in zip(chosen, experts, strict=True))
        torch.testing.assert_close(found[name], expected, atol=1e-5, rtol=1e-5)


def test_a_weight_for_all_or_one_for_each():
    assert shares("mean", 4) == [0.25] * 4
    assert shares(0.3, 2) == [0.3, 0.3]
    assert shares(1, 2) == [1.0, 1.0]
    assert shares((0.1, 0.9), 2) == [0.1, 0.9]
    assert refusal(shares, (0.1, 0.9), 3) == "merging.weights: 2 weights for 3 experts; allowed: one for each"


def test_the_sum_is_as_long_as_its_parts_agree():
    base = weights(0)
    ways = [{name: torch.zeros_like(tensor) for name, tensor in base.items()} for _ in range(2)]
    ways[0]["norm"][0], ways[1]["norm"][1] = 3.0, 4.0
    apart = [{name: base[name] + way[name] for name in base} for way in ways]
    length = math.sqrt(sum(float(tensor.square().sum()) for tensor in base.values()))
    found = merge(base, apart, [1.0, 1.0])
    assert found.relative_lengths == pytest.approx([3 / length, 4 / length], rel=1e-4)
    assert found.length_over_orthogonal == pytest.approx(1, rel=1e-4)
    assert merge(base, [apart[0]] * 4, [0.25] * 4).length_over_orthogonal == pytest.approx(2, rel=1e-4)


@pytest.mark.parametrize("other", [{"norm": torch.zeros(3)}, {"more": torch.zeros(1)}])
def test_another_architecture_is_refused(other):
    said = f"weights '{next(iter(other))}' differ from the base's in shape; only unpruned experts"
    assert refusal(task_vector, weights(0), weights(1) | other).startswith(said)


def test_merged_weights_are_finite():
    spoiled = weights(1) | {"norm": torch.tensor([0, 0, torch.inf, 0])}
    said = "merging: weight 'norm' holds NaN or infinite values; allowed: finite ones"
    assert refusal(merge, weights(0), [spoiled], [1.0]) == said
