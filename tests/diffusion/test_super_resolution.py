"""Shrinking, enlarging and measuring against numpy, Pillow, closed forms and invariants."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from unequal.diffusion.super_resolution import enlarge, psnr, shrink
from unequal.errors import UserError

SEEDS = st.integers(0, 2**32 - 1)


def pictures(seed: int, *shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1


@given(SEEDS, st.sampled_from([2, 4, 8]))
def test_shrinking_is_the_mean_over_areas(seed, factor):
    images = pictures(seed, 3, 2, 16, 8)
    areas = images.numpy().reshape(3, 2, 16 // factor, factor, 8 // factor, factor)
    np.testing.assert_allclose(shrink(images, factor).numpy(), areas.mean((3, 5)), atol=1e-12)


@given(SEEDS, st.sampled_from([2, 3, 4]))
def test_enlarging_is_pillows_bilinear(seed, factor):
    small = pictures(seed, 1, 1, 4, 5)
    picture = Image.fromarray(small[0, 0].numpy().astype(np.float32))
    expected = np.asarray(picture.resize((5 * factor, 4 * factor), Image.Resampling.BILINEAR))
    np.testing.assert_allclose(enlarge(small, factor)[0, 0].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("factor", [0, 1, 6, 32])
def test_factors_that_cannot_be(factor):
    with pytest.raises(UserError, match=f"super-resolution by {factor}: images of 16 × 16 pixels; allowed: a factor"):
        shrink(torch.zeros(1, 3, 16, 16), factor)


@given(SEEDS, st.floats(0.1, 100))
def test_psnr_of_an_error_of_known_size(seed, units):
    truth = pictures(seed, 2, 3, 8, 8)
    signs = torch.where(pictures(seed + 1, 2, 3, 8, 8) > 0, 1.0, -1.0)
    found = psnr(truth + units / 127.5 * signs, truth)
    torch.testing.assert_close(found, torch.full((2,), 20 * math.log10(255 / units), dtype=torch.float64))
