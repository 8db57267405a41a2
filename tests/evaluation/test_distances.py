"""Distances between features against torch-fidelity and closed forms, in bounded memory."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric
from torch_fidelity.metric_kid import kid_features_to_metric
from torch_fidelity.metric_prc import prc_features_to_metric

from unequal.evaluation import distances
from unequal.evaluation.distances import (
    ROWS,
    Features,
    RealFeatures,
    frechet_distance,
    kernel_distance,
    precision_and_recall,
)

CPU = torch.device("cpu")


def drawn(count: int, size: int, seed: int, shift: float = 0) -> np.ndarray:
    """Correlated features [count, size] of unequal variances, all positive, as a network's often are."""
    generator = np.random.default_rng(seed)
    mixed = generator.normal(shift, 1, (count, size)) @ np.random.default_rng(9).normal(size=(size, size))
    return (np.abs(mixed) * np.logspace(-2, 0, size)).astype(np.float32)


@pytest.mark.parametrize("device", [CPU, pytest.param(torch.device("cuda"), marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("count", "size"), [(400, 96), (60, 96)], ids=["regular", "singular"])
def test_the_scores_are_those_of_torch_fidelity(device, count, size):
    ours, real = drawn(count, size, 0), drawn(count + 30, size, 1, 0.2)
    doubles = [torch.from_numpy(one).double() for one in (ours, real)]
    fid = fid_statistics_to_metric(*map(fid_features_to_statistics, doubles), verbose=False)
    known = RealFeatures.around(real, 3, device)
    found = frechet_distance(Features.of(ours, device), known, device)
    assert found == pytest.approx(fid["frechet_inception_distance"], rel=1e-6)
    kid = kid_features_to_metric(*doubles, kid_subset_size=50, verbose=False)
    assert kernel_distance(ours, real, 50, device) == pytest.approx(tuple(kid.values()), rel=1e-6)
    precision, recall = shares(ours, real, 3)
    assert precision_and_recall(ours, known, 3, device) == pytest.approx((precision, recall), abs=1e-6)
    assert 0 < recall < precision < 1


def test_the_distance_of_a_normal_sample_from_its_own_distribution_is_the_known_bias():
    """(d + d·(d + 1)/4)/n in the first order of 1/n: d for the mean, the rest for the covariance."""
    count, size = 1000, 64
    bias = (size + size * (size + 1) / 4) / count
    assert bias == pytest.approx(1.104)
    generator, unit, none = np.random.default_rng(0), np.eye(size), np.empty((0, size))
    known = RealFeatures(none, np.zeros(size), unit, root=unit, radii=none[:, 0])
    drawn = [Features.of(generator.normal(size=(count, size)), CPU) for _ in range(5)]
    assert np.mean([frechet_distance(one, known, CPU) for one in drawn]) == pytest.approx(bias, rel=0.05)


def test_statistics_are_those_of_numpy():
    features = drawn(ROWS + 7, 24, 0)
    found = Features.of(features, CPU)
    np.testing.assert_allclose(found.mean, features.astype(np.float64).mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.covariance, np.cov(features, rowvar=False), rtol=1e-9, atol=1e-12)


def shares(ours: np.ndarray, real: np.ndarray, neighbourhood: int) -> tuple[float, float]:
    """Precision and recall by torch-fidelity, in float64."""
    doubles = [torch.from_numpy(one).double() for one in (ours, real)]
    options = {"prc_neighborhood": neighbourhood, "prc_batch_size": 64, "save_cpu_ram": True, "verbose": False}
    found = prc_features_to_metric(*doubles, **options)
    return found["precision"], found["recall"]


@pytest.mark.parametrize("neighbourhood", [2, 20])
def test_parts_together_are_the_whole(monkeypatch, neighbourhood):
    """Also where a part has fewer features than a neighbourhood."""
    ours, real = drawn(75, 3, 0), drawn(100, 3, 1, 0.2)
    whole = kernel_distance(ours, real, 60, CPU)
    monkeypatch.setattr(distances, "TILE", 16)
    expected = pytest.approx(shares(ours, real, neighbourhood), abs=1e-6)
    known = RealFeatures.around(real, neighbourhood, CPU)
    assert precision_and_recall(ours, known, neighbourhood, CPU) == expected
    assert kernel_distance(ours, real, 60, CPU) == pytest.approx(whole, rel=1e-9)


@pytest.mark.parametrize(("fit", "place"), [(True, "meta"), (False, "cpu")])
def test_sets_go_to_a_device_that_has_room_for_all(monkeypatch, fit, place):
    asked: list[int] = []
    monkeypatch.setattr(distances, "all_fit", lambda size, device: asked.append(size) or fit)
    sets = distances.resident(drawn(5, 3, 0), drawn(7, 3, 1), device=torch.device("meta"))
    assert ([one.device.type for one in sets], asked) == ([place, place], [4 * (5 + 7) * 3])


class Largest(TorchDispatchMode):
    """Remember the bytes of the largest tensor that an operation returns; an array as a tensor takes none."""

    bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        returned = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.lift_fresh.default:
            return returned
        sizes = [one.numel() * one.element_size() for one in tree_leaves(returned) if isinstance(one, torch.Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return returned


def test_no_tensor_grows_with_the_square_of_the_images(monkeypatch):
    """Nor is one as large as all features in float64."""
    tile, rows, size = 64, 128, 16
    monkeypatch.setattr(distances, "TILE", tile)
    monkeypatch.setattr(distances, "ROWS", rows)
    features = drawn(6 * tile, size, 0)
    with Largest() as largest:
        precision_and_recall(features, RealFeatures.around(features[: 2 * tile], 3, CPU), 3, CPU)
    assert largest.bytes == 4 * tile * (tile + 4)
    with Largest() as largest:
        kernel_distance(features, features[: 2 * tile], 2 * tile, CPU)
    assert largest.bytes == 8 * tile**2
    with Largest() as largest:
        Features.of(features, CPU)
    assert largest.bytes == 8 * rows * size < 8 * features.size
