"""Held-out errors of a group: parts of a mean over log-SNR, of draws that every model shares."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from one_line import refusal
from specs import spec_of
from torch import Tensor, nn

from unequal.data.prepared import PreparedData, to_model_range
from unequal.experts.held_out import CHOICE, REPORT, HeldOut
from unequal.timesteps.groups import interleaved_groups, timestep_groups
from unequal.timesteps.partition import TimestepRange

T = 50


class Saying(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, x_t: Tensor, timesteps: Tensor) -> Any:
        return SimpleNamespace(sample=self.value.expand_as(x_t))


@pytest.fixture
def half(prepared):
    def make(half: int = CHOICE, count: int = 600) -> HeldOut:
        spec = spec_of("sample")
        return HeldOut.of(prepared, half, count=count, spec=spec, seed=0, device=torch.device("cpu"))

    return make


def test_a_constant_answer_errs_by_its_distance_whatever_the_timestep(half, prepared):
    x0 = to_model_range(torch.from_numpy(np.array(prepared.holdout_choice)))
    expected = float((x0 - 0.25).square().mean())
    whole = TimestepRange(0, T - 1)
    # As many draws of each of the images: 600 of 6.
    assert half().error(Saying(0.25), whole) == pytest.approx(expected, rel=1e-5)
    # Clipped as in sampling.
    assert half().error(Saying(7.0), whole) == half().error(Saying(1.0), whole)


def test_parts_of_groups_add_up(half):
    held, net, schedule = half(), Saying(0.25), spec_of("sample").noise_schedule()
    whole = held.error(net, TimestepRange(0, T - 1))
    for groups in (timestep_groups("snr", schedule, 4, 0.5), interleaved_groups(T, 4, 1.0)):
        assert sum(held.error(net, group.range) for group in groups) == pytest.approx(whole, rel=1e-5)


def test_timesteps_beyond_the_window_count_for_nothing(half):
    held = half()
    beyond = int(np.flatnonzero(held.weights)[-1]) + 1
    assert beyond < T
    assert held.error(Saying(0.25), TimestepRange(beyond, T - 1)) == 0.0


def test_halves_are_of_other_images_and_each_is_the_same_for_every_model(half):
    one, whole = Saying(0.25), TimestepRange(0, T - 1)
    assert half(CHOICE, 5).error(one, whole) == half(CHOICE, 5).error(Saying(0.25), whole)
    assert half(CHOICE, 5).error(one, whole) != half(REPORT, 5).error(one, whole)


def test_a_network_that_answers_no_number_has_no_error(half):
    said = "the error of a model of timesteps 3 … 9 on held-out images is nan; lower "
    assert refusal(half().error, Saying(math.nan), TimestepRange(3, 9)).startswith(said)


def test_one_held_out_image_has_no_two_halves(prepared):
    split = {"train": [0, 47], "holdout": [47, 48]}
    lacking = PreparedData(prepared.images, prepared.labels, prepared.facts | {"split": split}, prepared.path)
    chosen = {"count": 1, "spec": spec_of(), "seed": 0, "device": torch.device("cpu")}
    said = "data.holdout: 1 held-out images; two halves need two or more"
    assert refusal(HeldOut.of, lacking, REPORT, **chosen) == said
