"""Pixels and the range of the model."""

import torch

from unequal.data.prepared import to_model_range, to_uint8


def test_all_256_values_come_back() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    seen = to_model_range(values)
    assert seen.dtype == torch.float32
    assert torch.equal(to_uint8(seen), values)


def test_the_ends_and_the_distance_of_neighbours() -> None:
    seen = to_model_range(torch.arange(256, dtype=torch.uint8)).double()
    assert (seen[0], seen[-1]) == (-1, 1)
    assert torch.allclose(seen.diff(), torch.full((255,), 2 / 255, dtype=torch.float64), atol=1e-6)


def test_values_outside_the_range_are_clamped_and_others_go_to_the_nearest() -> None:
    # 127.5 + 127.5·x: −0.9 → 12.75, 0.01 → 128.775
    assert to_uint8(torch.tensor([-7.0, -1.001, -0.9, 0.01, 1.001, 7.0])).tolist() == [0, 0, 13, 129, 255, 255]


def test_half_precision_is_rounded_in_single() -> None:
    values = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_uint8(to_model_range(values).half()), values)
