"""Pairs of subjects, and distances of known pictures."""

import pytest
import torch
from torch import Tensor

from studies.consistency import comparison
from studies.consistency.comparison import (
    OPTIMUM,
    TRAINED,
    UNTRAINED,
    Subject,
    by_optimum,
    distances,
    mismatched,
    nearest,
    pairs,
    predicted_x0,
    sampled,
)
from unequal.data.prepared import PreparedData, tensor_of, to_model_range
from unequal.diffusion.schedule import NoiseSchedule
from unequal.diffusion.spacing import sampling_timesteps

SCHEDULE = NoiseSchedule.linear(50)
STEPS = sampling_timesteps(50, 50)
A0, A1, B0 = (Subject(name, TRAINED, name[0]) for name in ("a0", "a1", "b0"))
START_A, START_B = Subject("start_a", UNTRAINED, "a"), Subject("start_b", UNTRAINED, "b")
BEST = Subject("best", OPTIMUM)


def normal(seed: int, count: int = 6) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def pictures(seed: int, count: int = 6) -> Tensor:
    return normal(seed, count).clamp(-1, 1)


@pytest.fixture
def known(prepared: PreparedData) -> Tensor:
    """Training images, [36, 1, 8, 8] in [−1, 1]."""
    return to_model_range(tensor_of(prepared.train))


def test_each_pair_is_compared_once_under_the_name_of_its_difference() -> None:
    found = {(a.name, b.name): name for name, a, b in pairs([A0, A1, B0, BEST, START_A, START_B])}
    assert found == {
        ("a0", "a0"): "itself", ("a1", "a1"): "itself", ("b0", "b0"): "itself",
        ("a0", "a1"): "seeds", ("a0", "b0"): "widths", ("a1", "b0"): "widths",
        ("a0", "best"): "optimum", ("a1", "best"): "optimum", ("b0", "best"): "optimum",
        ("start_a", "start_b"): "untrained",
    }  # fmt: skip


def test_distances_of_the_same_and_of_other_noise() -> None:
    """One model's pictures and their negatives: MSE 4·mean square; the neighbour stands for other noise."""
    first = pictures(0)
    (own, row, other) = distances({A0: first, A1: -first})
    assert [one["relation"] for one in (own, row, other)] == ["itself", "seeds", "itself"]
    assert own["mse_same"] == 0
    assert row["mse_same"] == pytest.approx(float(4 * first.square().mean()), rel=1e-5)
    neighbours = first[[5, 0, 1, 2, 3, 4]]
    assert own["mse_other_noise"] == pytest.approx(float((first - neighbours).square().mean()), rel=1e-5)
    assert row["mse_other_noise"] == pytest.approx(float((first + neighbours).square().mean()), rel=1e-5)
    torch.testing.assert_close(mismatched(first), neighbours)


@pytest.mark.parametrize("at_once", [1, 30, 1 << 24])
def test_the_nearest_image_is_that_of_all_pairs(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "DISTANCES_AT_ONCE", at_once)
    a, b = pictures(0, 7), pictures(1, 11)
    table = (a[:, None] - b[None]).square().flatten(2).mean(2)
    errors, indices = nearest(a, b)
    torch.testing.assert_close(errors, table.min(1).values)
    assert indices.tolist() == table.argmin(1).tolist()


def test_the_optimum_samples_the_images_that_it_knows(known: Tensor) -> None:
    found = sampled(by_optimum(known, SCHEDULE), normal(0, 40), STEPS, SCHEDULE, 16)
    errors, indices = nearest(found, known)
    assert float(errors.max()) < 1e-4
    assert len(set(indices.tolist())) > 10


@pytest.mark.parametrize("t", [0, 30, 49])
def test_models_are_asked_about_images_under_their_noise(t: int) -> None:
    asked: list[Tensor] = []

    def predict(x_t: Tensor, timestep: int) -> Tensor:
        assert timestep == t
        asked.append(x_t)
        return x_t

    x0, epsilon = pictures(0), normal(1)
    predicted_x0(predict, x0, epsilon, t, SCHEDULE, 4)
    expected = SCHEDULE.alpha[t] * x0 + SCHEDULE.sigma[t] * epsilon
    torch.testing.assert_close(torch.cat(asked), expected.float())
