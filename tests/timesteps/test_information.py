"""InfoNoise: the information of timesteps about an image, against the closed forms of normal data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.diffusion.schedule import NoiseSchedule
from unequal.timesteps.information import InfoNoiseSampler, information, onset
from unequal.timesteps.partition import Partition, equal_log_snr

SCHEDULE = NoiseSchedule.linear(1000)
SNR = SCHEDULE.snr.numpy()
RATIO = SNR**-0.5
#: Errors of ε by the best denoiser of data from N(0, I): SNR/(1 + SNR).
NORMAL = SNR / (1 + SNR)
BINS = equal_log_snr(SCHEDULE, 40, drop_empty=True)
THREE = Partition([(0, 1), (2, 7), (8, 19)])


def sampler(**changed: object) -> InfoNoiseSampler:
    settings: dict[str, object] = {"half_life": 100, "warmup_images": 1000, "uniform_share": 0.0, "onset": 0.15}
    return InfoNoiseSampler(np.log(SNR), BINS, **settings | changed)  # type: ignore[arg-type]


def test_timesteps_inform_about_a_normal_image_as_much_as_its_channel_carries():
    """½·ln((1 + SNR_0)/(1 + SNR_{T−1})), the information between both ends, is 4.6052 nats a value."""
    exact = 0.5 * np.log((1 + SNR[0]) / (1 + SNR[-1]))
    assert exact == pytest.approx(4.6052, abs=5e-5)
    assert information(NORMAL, np.log(SNR)).sum() == pytest.approx(4.6051, abs=5e-5)


def test_the_gate_lies_where_the_rate_has_come_down():
    """Normal data have m/r³ = 1/(r·(1 + r²)), which is 0.2 at r = 1.5160, against some 100 at r = 0.01."""
    found = onset(NORMAL, RATIO)
    assert found == RATIO[RATIO < 1.5165].max()
    assert 1 / (found * (1 + found**2)) == pytest.approx(0.002 / (RATIO[0] * (1 + RATIO[0] ** 2)), rel=0.01)


@pytest.mark.parametrize("share", [0.0, 0.2])
@pytest.mark.parametrize("weigh", [np.ones_like, lambda snr: 1 / (1 + snr), lambda snr: 4 + 1 / snr])
def test_draws_times_weights_are_the_information_about_an_image(weigh, share):
    one = sampler(uniform_share=share)
    one.set_loss_weights(weigh(SNR))
    one.learn(np.arange(1000), weigh(SNR) * NORMAL)
    weight_of_x0 = SNR * weigh(SNR) * one.importance()
    product = one.probabilities * weight_of_x0
    gated = np.abs(np.gradient(np.log(SNR))) * NORMAL * RATIO**3 / (RATIO**3 + 0.15**3)
    middle = slice(20, -20)  # the mean of a bin stands for its middle, and beyond the outermost ones for the ends
    ratios = (product / gated)[middle]
    assert ratios.max() / ratios.min() < 1.1
    assert one.probabilities.min() >= share / 1000
    assert (one.probabilities @ one.importance()) == pytest.approx(1)


def test_timesteps_are_uniform_until_it_is_warm():
    one = sampler(warmup_images=1001)
    one.learn(np.arange(1000), NORMAL)
    np.testing.assert_array_equal(one.probabilities, np.full(1000, 0.001))
    np.testing.assert_array_equal(one.importance(), np.ones(1000))
    one.learn(np.array([5]), np.array([np.nan]))  # an image all the same, of which nothing is known
    assert one.probabilities.max() > 0.0015


def over_three(half_life: int) -> InfoNoiseSampler:
    return InfoNoiseSampler(-np.arange(20.0), THREE, half_life=half_life, warmup_images=1000, uniform_share=0.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 50))
def test_means_of_bins_forget_half_after_as_many_losses_of_their_own(seed, half_life):
    generator, three = np.random.default_rng(seed), over_three(half_life)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(4):
        seen.append((generator.integers(8, size=5), generator.gamma(1.0, size=5)))  # none of the last bin
        three.learn(*seen[-1])
    weight, total, later = 0.0, 0.0, 0
    for timesteps, values in reversed(seen):
        here = THREE.of(timesteps) == 1
        weight += here.sum() * 0.5 ** (later / half_life)
        total += values[here].sum() * 0.5 ** (later / half_life)
        later += here.sum()
    assert three.images == 20
    assert three.sums[1] == pytest.approx(total, rel=1e-12)
    assert three.counts.tolist()[1:] == pytest.approx([weight, 0.0], rel=1e-12)


def test_means_of_bins_are_joined_by_a_line():
    """Bins' middles lie at 0.5, 4.5 and 13.5; the last one has no loss, and goes by its neighbour."""
    three = over_three(10)
    np.testing.assert_array_equal(three.losses(), np.zeros(20))
    three.learn(np.array([0, 1, 3]), np.array([1.0, 3.0, 4.0]))
    expected = np.concatenate([[2.0], np.linspace(2.25, 3.75, 4), np.full(15, 4.0)])
    np.testing.assert_allclose(three.losses(), expected)
