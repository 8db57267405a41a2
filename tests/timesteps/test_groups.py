"""Groups of timesteps against the published figures and the definitions done naively."""

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.groups import Grouping, flops_limits, mean_limit, timestep_groups
from unequal.timesteps.partition import Partition, equal_sums

SHARES = st.floats(0.05, 0.95)


def naive_groups(schedule: NoiseSchedule, groups: int, ratio: float) -> list[int]:
    """The group of each timestep by equations 2 to 5, standardising included, F = 1."""
    alphas_bar = np.cumprod(1 - schedule.betas.numpy())
    snr = 10 * np.log10(alphas_bar / (1 - alphas_bar))
    standard = (-snr - (-snr).mean()) / (-snr).std()
    flops = ratio + (1 - ratio) * (standard - standard.min()) / (standard.max() - standard.min())
    limits = [(groups - i - 1) / groups * ratio + (i + 1) / groups for i in range(groups)]
    # The last limit is the whole model, which the last timestep's FLOPs equal: allow for rounding there.
    limits[-1] += 1e-9
    return [next(i for i in range(groups) if f <= limits[i]) for f in flops]


@pytest.mark.parametrize(
    ("kind", "name", "mean"),
    [("snr", "linear", 0.8328), ("constant", "linear", 0.8328), ("snr", "scaled_linear", 0.8133)],
)
def test_mean_limit_is_the_published_one(kind, name, mean):
    """The paper's table 2 has 6.79 of 8.14 G for the linear schedule, within the two digits that are printed."""
    found = timestep_groups(kind, NoiseSchedule.named(name, 1000), 10, 0.5)
    assert sum(group.range.length * group.limit_ratio for group in found) / 1000 == pytest.approx(mean, abs=5e-5)
    assert mean_limit(found) == pytest.approx(mean, abs=5e-5)
    assert len({group.limit_ratio for group in found}) == (1 if kind == "constant" else 10)


@pytest.mark.parametrize("kind", ["uniform_increasing", "uniform_decreasing"])
def test_limits_over_groups_of_equal_size_average_to_their_middle(kind):
    """Σ F_u(i)/N = 1 − (1 − k)(N − 1)/(2N): 0.775 for ten groups and k = 0.5."""
    found = timestep_groups(kind, NoiseSchedule.linear(1000), 10, 0.5)
    assert [group.range.length for group in found] == [100] * 10
    assert mean_limit(found) == pytest.approx(0.775)


def test_ten_groups_of_the_cosine_schedule_leave_the_ninth_empty():
    schedule = NoiseSchedule.cosine(1000)
    said = refusal(timestep_groups, "snr", schedule, 10, 0.5)
    assert said.startswith("of 10 groups, number 9 ") and said.endswith("between -60.1 and -73.1 dB; use fewer groups")
    member = naive_groups(schedule, 10, 0.5)
    assert sorted(set(member)) == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert np.array(flops_limits(10, 0.5))[member].mean() == pytest.approx(0.695, abs=5e-4)


@settings(max_examples=50)
@given(st.sampled_from(["linear", "cosine", "scaled_linear"]), st.integers(30, 1500), st.integers(1, 12), SHARES)
def test_groups_are_those_of_the_definition(name, timesteps, groups, ratio):
    schedule = NoiseSchedule.named(name, timesteps)
    member = naive_groups(schedule, groups, ratio)
    if set(member) != set(range(groups)):
        empty = min(set(range(groups)) - set(member))
        with pytest.raises(UserError, match=rf"^of {groups} groups, number {empty + 1} from the data end is empty"):
            timestep_groups("snr", schedule, groups, ratio)
        return
    found = timestep_groups("snr", schedule, groups, ratio)
    assert Partition(group.range for group in found).members.tolist() == member
    assert [limit for *_, limit in found] == pytest.approx(flops_limits(groups, ratio))


@settings(max_examples=50)
@given(st.data(), st.sampled_from(get_args(Grouping)))
def test_groups_of_any_kind_cover_every_timestep_once_and_in_order(data, kind):
    schedule = NoiseSchedule.linear(data.draw(st.integers(30, 300)))
    groups, ratio = data.draw(st.integers(1, 8)), data.draw(st.floats(0.05, 0.95))
    excess = np.random.default_rng(data.draw(st.integers(0, 99))).uniform(0.5, 1.5, schedule.timesteps)
    found = timestep_groups(kind, schedule, groups, ratio, excess)
    assert len(found) == groups
    assert Partition(group.range for group in found).timesteps == schedule.timesteps
    limits = [group.limit_ratio for group in found]
    assert all(ratio < limit <= 1 for limit in limits)
    if kind == "constant":
        rising = timestep_groups("snr", schedule, groups, ratio)
        assert set(limits) == {mean_limit(rising)}
    elif kind.endswith("clusters"):
        lengths = np.array([group.range.length for group in found])
        mean = lengths @ flops_limits(groups, ratio) / schedule.timesteps
        assert limits == pytest.approx([mean] * groups)
    else:
        assert sorted(limits) == pytest.approx(flops_limits(groups, ratio))


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.floats(0.05, 0.95))
def test_groups_of_equal_excess_are_slots_of_it(seed, groups, ratio):
    excess = np.random.default_rng(seed).uniform(0.5, 1.5, 200) * np.geomspace(1, 0.05, 200)
    found = timestep_groups("excess_loss", NoiseSchedule.linear(200), groups, ratio, excess)
    assert [group.range for group in found] == list(equal_sums(excess, groups))
    # The more a group's timesteps exceed the optimal denoiser's loss on average, the larger its model.
    means = [excess[group.range.slice].mean() for group in found]
    assert [limit for _, limit in sorted(zip(means, (g.limit_ratio for g in found), strict=True))] == pytest.approx(
        flops_limits(groups, ratio)
    )


def test_groups_of_excess_need_an_excess():
    with pytest.raises(UserError, match=r"^groups of equal excess loss need the base's profile and that of the"):
        timestep_groups("excess_loss", NoiseSchedule.linear(30), 3, 0.5)


def test_a_timestep_exactly_at_a_limit_stays_under_it():
    """FLOPs(t) ≤ F_u(i): difficulties 0, ¼ … 1 in two groups give the middle one, 0.75, to the first."""
    # Powers of two are exact, and so are their logarithms' differences.
    schedule = NoiseSchedule("even", 2.0 ** torch.tensor([4, 2, 0, -2, -4]).double(), torch.ones(5))
    assert timestep_groups("snr", schedule, 2, 0.5) == [((0, 2), 0.75), ((3, 4), 1.0)]


@pytest.mark.parametrize("kind", get_args(Grouping))
@pytest.mark.parametrize("ratio", [1.0, 0.3])
def test_one_group_is_the_whole_model_everywhere(kind, ratio):
    assert timestep_groups(kind, NoiseSchedule.linear(100), 1, ratio, np.ones(100)) == [((0, 99), 1.0)]


@pytest.mark.parametrize(
    ("groups", "ratio", "complaint"),
    [
        (0, 0.5, "0 groups of 100 timesteps; allowed: 1 … 100"),
        (4, 0.0, "min_ratio 0.0 is no share of the base's FLOPs; allowed: above 0, at most 1"),
        (4, 1.0, "min_ratio 1.0 gives 1 distinct limit of FLOPs to 4 groups; allowed: below 1, or one group"),
        (4, 1 - 1e-16, "min_ratio 0.9999999999999999 gives 2 distinct limits of FLOPs to 4 groups"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups, ratio, complaint):
    for kind in get_args(Grouping):
        said = refusal(timestep_groups, kind, NoiseSchedule.linear(100), groups, ratio, np.ones(100))
        assert said.startswith(complaint)
