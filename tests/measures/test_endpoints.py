"""Endpoints against closed forms and quadratures of another library."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, interpolate, stats

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.measures.loss_profile import Errors, Interval, as_metrics, endpoints, log_snr_weights, relative_change

NAMES = ("loss_over_timesteps", "loss_over_log_snr", "x0_loss_over_log_snr")
EVERYWHERE = Interval(-np.inf, np.inf)
SCHEDULES = ("linear", "cosine", "scaled_linear")


def of_log_snr(log_snr: np.ndarray) -> NoiseSchedule:
    """The schedule with these λ: α² = 1/(1 + e^−λ)."""
    power = torch.from_numpy(1 / (1 + np.exp(-log_snr)))
    return NoiseSchedule("made", power.sqrt(), (1 - power).sqrt())


def log_snr_of(schedule: NoiseSchedule) -> np.ndarray:
    return torch.log(schedule.alpha**2 / schedule.sigma**2).numpy()


def same(table: np.ndarray, draws: int = 3) -> Errors:
    """The same error [T] at every draw, of ε as of x0."""
    return Errors(*(np.repeat(table[:, None], draws, axis=1),) * 2)


def drawn(seed: int, timesteps: int = 40, draws: int = 20) -> Errors:
    generator = np.random.default_rng(seed)
    return Errors(*(generator.gamma(2.0, size=(timesteps, draws)) for _ in range(2)))


def falling(seed: int, timesteps: int) -> np.ndarray:
    """λ that fall unevenly."""
    return np.sort(np.random.default_rng(seed).uniform(-11, 12, timesteps))[::-1].copy()


@pytest.mark.parametrize("name", SCHEDULES)
@given(st.floats(0.01, 100))
def test_a_constant_loss_is_its_own_mean(name: str, loss: float) -> None:
    schedule = NoiseSchedule.named(name, 200)
    for endpoint in endpoints(schedule).values():
        assert endpoint.weights.min() >= 0
        assert endpoint.of(same(np.full(200, loss))) == pytest.approx((loss, 0.0), abs=1e-9 * loss)


@given(st.integers(0, 2**32 - 1), st.floats(-3, 3), st.floats(40, 50))
def test_a_loss_that_is_linear_in_log_snr_has_the_mean_of_the_middle(seed: int, slope: float, offset: float) -> None:
    log_snr = falling(seed, 60)
    errors = same(offset + slope * log_snr)
    found = endpoints(of_log_snr(log_snr))
    assert found["loss_over_timesteps"].of(errors)[0] == pytest.approx(offset + slope * log_snr.mean())
    for name in NAMES[1:]:
        low, high = found[name].interval or (np.nan, np.nan)
        assert found[name].of(errors)[0] == pytest.approx(offset + slope * (low + high) / 2, rel=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_where_log_snr_falls_evenly_all_timesteps_but_the_two_ends_count_alike(seed: int) -> None:
    """So a mean over λ is that over timesteps, where the ends' mean is that of all."""
    schedule = of_log_snr(np.linspace(9, -4, 41))
    errors = drawn(seed, 41)
    ends, inner = errors.epsilon[[0, -1]].mean(), errors.epsilon[1:-1].mean()
    errors.epsilon[[0, -1]] += inner - ends
    found = endpoints(schedule)
    over_t, over_log_snr = (found[name].of(errors)[0] for name in NAMES[:2])
    assert over_log_snr == pytest.approx(over_t)
    # That schedule's λ are just those of the third endpoint.
    np.testing.assert_allclose(found[NAMES[2]].weights, found[NAMES[1]].weights, rtol=1e-6)


@given(st.integers(0, 2**32 - 1))
def test_the_mean_over_all_log_snr_is_scipys(seed: int) -> None:
    log_snr, errors = falling(seed, 60), drawn(seed, 60)
    found = endpoints(of_log_snr(log_snr))["loss_over_log_snr"]
    expected = -integrate.trapezoid(errors.epsilon.mean(1), log_snr) / (log_snr[0] - log_snr[-1])
    assert found.of(errors)[0] == pytest.approx(expected, rel=1e-6)
    assert found.interval == pytest.approx((log_snr[-1], log_snr[0]))


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_mean_of_x0_is_scipys_quadrature_between_the_two_ends(name: str) -> None:
    schedule, errors = NoiseSchedule.named(name, 1000), drawn(0, 1000)
    log_snr = log_snr_of(schedule)
    found = endpoints(schedule)["x0_loss_over_log_snr"]
    low, high = max(-4, log_snr[-1]), min(9, log_snr[0])
    line = interpolate.interp1d(log_snr, errors.x0.mean(1))
    inside = log_snr[(low < log_snr) & (log_snr < high)]
    expected, _ = integrate.quad(line, low, high, points=inside, limit=5000)
    assert found.of(errors)[0] == pytest.approx(expected / (high - low), rel=1e-6)
    assert found.interval == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("highest", "lowest", "interval"), [(12, -11, (-4, 9)), (6, -11, (-4, 6)), (12, 2, (2, 9)), (6, 2, (2, 6))]
)
def test_the_interval_is_what_the_schedule_reaches_of_it(
    highest: float, lowest: float, interval: tuple[float, float]
) -> None:
    schedule = of_log_snr(np.linspace(highest, lowest, 50))
    assert endpoints(schedule)["x0_loss_over_log_snr"].interval == pytest.approx(interval)


def test_an_end_between_two_timesteps_is_cut_exactly() -> None:
    """Of the line from 0 at λ = −2 to 12 at λ = 10 the part between −1 and 1 has the mean 2."""
    weights, interval = log_snr_weights(of_log_snr(np.array([10.0, -2.0])), Interval(-1, 1))
    assert interval == (-1, 1)
    assert weights @ [12, 0] == pytest.approx(2)


def test_timesteps_beyond_the_interval_and_its_neighbours_do_not_count() -> None:
    weights = endpoints(of_log_snr(np.linspace(12, -11, 24)))["x0_loss_over_log_snr"].weights
    assert np.flatnonzero(weights > 1e-9).tolist() == list(range(3, 17))


@pytest.mark.parametrize("ends", [(30, 10), (-5, -20)])
def test_a_schedule_without_such_log_snrs_is_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(UserError, match=r"^schedule 'made' has log-SNRs from .*, none of them between -4 and 9, where"):
        endpoints(of_log_snr(np.linspace(*ends, 30)))


def test_standard_errors_are_those_of_independent_strata() -> None:
    errors, schedule = drawn(0), NoiseSchedule.linear(40)
    for endpoint in endpoints(schedule).values():
        table = getattr(errors, endpoint.error)
        expected = np.linalg.norm(endpoint.weights * stats.sem(table, axis=1))
        assert endpoint.of(errors)[1] == pytest.approx(expected)


def test_the_change_between_two_models_is_paired() -> None:
    before, schedule = drawn(0), NoiseSchedule.linear(40)
    noise = np.random.default_rng(1).normal(0.9, 0.01, before.x0.shape)
    after = Errors(before.epsilon * noise, before.x0 * noise)
    for endpoint in endpoints(schedule).values():
        change, error = endpoint.change(before, after)
        assert change == pytest.approx(endpoint.of(after)[0] / endpoint.of(before)[0] - 1)
        assert error < endpoint.of(before)[1] / endpoint.of(before)[0] / 20
        assert endpoint.change(before, before) == (0, 0)
    # Uniform weights are none.
    found = endpoints(schedule)["loss_over_timesteps"].change(before, after)
    assert found == pytest.approx(relative_change(before.epsilon, after.epsilon))


def test_figures_name_the_interval() -> None:
    schedule = NoiseSchedule.linear(1000)
    figures = as_metrics(endpoints(schedule), drawn(0, 1000))
    assert list(figures) == [
        NAMES[0], f"{NAMES[0]}_stderr",
        NAMES[1], f"{NAMES[1]}_stderr", f"{NAMES[1]}_interval",
        NAMES[2], f"{NAMES[2]}_stderr", f"{NAMES[2]}_interval",
    ]  # fmt: skip
    assert figures[f"{NAMES[2]}_interval"] == [-4, 9]


def test_errors_of_other_timesteps_are_refused() -> None:
    endpoint = endpoints(NoiseSchedule.linear(40))["loss_over_log_snr"]
    with pytest.raises(UserError, match="errors of 30 timesteps have no mean by a schedule of 40"):
        endpoint.of(drawn(0, 30))
