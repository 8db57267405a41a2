"""Similarity of images: closed forms, a loop over windows, values of another library."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unequal.measures import similarity
from unequal.measures.similarity import MEASURES, SSIM_C1, SSIM_C2, cosine, found_again, mismatched, mse, nearest, ssim

SEEDS = st.integers(0, 2**32 - 1)


def images(seed: int, count: int = 5, channels: int = 1, size: int = 8) -> Tensor:
    """[count, channels, size, size] in [−1, 1], float64."""
    drawn = np.random.default_rng(seed).uniform(-1, 1, (count, channels, size, size))
    return torch.from_numpy(drawn)


def waves(size: int, channels: int, phase: float) -> Tensor:
    """One smooth picture in [−1, 1]."""
    y, x, c = np.meshgrid(np.arange(size), np.arange(size), np.arange(channels), indexing="ij")
    values = 0.5 + 0.4 * np.sin(0.9 * x + phase) * np.cos(0.6 * y - 0.3 * c) + 0.1 * np.cos(2.3 * x * y / size)
    return torch.from_numpy(2 * values - 1).permute(2, 0, 1)[None]


def ssim_by_windows(a: np.ndarray, b: np.ndarray, side: int) -> float:
    """SSIM of two pictures [C, H, W] in [−1, 1], window by window."""
    found = []
    for channel in range(a.shape[0]):
        for top in range(a.shape[1] - side + 1):
            for left in range(a.shape[2] - side + 1):
                place = (channel, slice(top, top + side), slice(left, left + side))
                x, y = (picture[place].ravel() / 2 + 0.5 for picture in (a, b))
                (var_x, both), (_, var_y) = np.cov(x, y)
                level = (2 * x.mean() * y.mean() + 1e-4) / (x.mean() ** 2 + y.mean() ** 2 + 1e-4)
                found.append(level * (2 * both + 9e-4) / (var_x + var_y + 9e-4))
    return float(np.mean(found))


@pytest.mark.parametrize(
    ("size", "channels", "phase", "expected"),
    # structural_similarity of scikit-image 0.26, window 7, data range 1.
    [(8, 1, 0.4, 0.9398211865899726), (8, 1, 2.0, -0.2187371579990856), (16, 3, 0.7, 0.7747880459821593)],
)
def test_ssim_is_that_of_scikit_image(size: int, channels: int, phase: float, expected: float) -> None:
    found = ssim(waves(size, channels, 0), waves(size, channels, phase))
    assert found.tolist() == pytest.approx([expected], abs=1e-12)


@pytest.mark.parametrize(("channels", "size", "side"), [(1, 8, 7), (3, 9, 7), (1, 5, 5), (2, 4, 4)])
def test_ssim_is_the_mean_over_all_windows(channels: int, size: int, side: int) -> None:
    a, b = images(0, 3, channels, size), images(1, 3, channels, size)
    expected = [ssim_by_windows(x, y, side) for x, y in zip(a.numpy(), b.numpy(), strict=True)]
    assert ssim(a, b).tolist() == pytest.approx(expected, abs=1e-10)


def test_ssim_of_flat_pictures_compares_their_means_alone() -> None:
    """Intensities 0.2 and 0.6: (2·0.12 + C1)/(0.04 + 0.36 + C1)."""
    a, b = (torch.full((1, 1, 8, 8), 2 * level - 1, dtype=torch.float64) for level in (0.2, 0.6))
    assert float(ssim(a, b)) == pytest.approx((0.24 + SSIM_C1) / (0.4 + SSIM_C1))


def test_ssim_of_a_picture_and_its_negative_about_grey() -> None:
    """Equal means, covariance −variance, in one window of 7 pixels."""
    a = images(0, 1, 1, 7)
    a -= a.mean()
    variance = float((a / 2).var())
    assert float(ssim(a, -a)) == pytest.approx((-2 * variance + SSIM_C2) / (2 * variance + SSIM_C2))


def test_mse_and_cosine_in_closed_form() -> None:
    a = torch.zeros(2, 1, 2, 2)
    a[:, 0, 0] = torch.tensor([3.0, 4.0])
    b = torch.zeros(2, 1, 2, 2)
    b[0, 0, 0] = torch.tensor([4.0, 3.0])
    b[1, 0, 1] = torch.tensor([1.0, 1.0])
    assert mse(a, b).tolist() == [0.5, 6.75]
    assert cosine(a, b).tolist() == pytest.approx([24 / 25, 0])


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES.keys())
@given(SEEDS)
def test_measures_are_symmetric_and_best_for_equal_images(
    measure: Callable[[Tensor, Tensor], Tensor], seed: int
) -> None:
    a, b = images(seed, channels=3), images(seed + 1, channels=3)
    torch.testing.assert_close(measure(a, b), measure(b, a))
    perfect = 0.0 if measure is mse else 1.0
    torch.testing.assert_close(measure(a, a), torch.full((5,), perfect, dtype=torch.float64))
    assert (measure(a, b) > 0).all() if measure is mse else (measure(a, b) < 1).all()


def test_mismatched_images_are_the_same_in_wrong_places() -> None:
    a = images(0)
    assert (mse(a, mismatched(a)) > 0).all()
    torch.testing.assert_close(mismatched(a), a[[4, 0, 1, 2, 3]])


@pytest.mark.parametrize("at_once", [1, 30, 1 << 24])
def test_the_nearest_image_is_that_of_all_pairs(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "DISTANCES_AT_ONCE", at_once)
    a, b = images(0, 7, 3), images(1, 11, 3)
    table = (a[:, None] - b[None]).square().flatten(2).mean(2)
    errors, indices = nearest(a, b)
    torch.testing.assert_close(errors, table.min(1).values)
    assert indices.tolist() == table.argmin(1).tolist()


def test_partners_are_found_again_unless_they_are_mixed_up() -> None:
    a = images(0, 20)
    close = a + 0.01 * images(1, 20)
    assert found_again(a, close).all()
    assert not found_again(a, mismatched(close)).any()
