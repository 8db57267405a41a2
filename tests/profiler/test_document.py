"""timesteps.json as it is written and read, which timesteps it holds and what each stands for; what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from one_line import refusal

from unequal.diffusion.schedule import Flow, NoiseSchedule
from unequal.profiler.document import Betas, Losses, Timesteps
from unequal.profiler.epsilon_errors import spread
from unequal.profiler.page import shares_of
from unequal.runtime.files import read_json, write_json

T = 50
LOSSES = np.random.default_rng(0).gamma(2.0, size=(8, 5))


def document(**changes: Any) -> Timesteps:
    facts: dict[str, Any] = {
        "model": "mine",
        "family": "UNet2DModel",
        "prediction": "epsilon",
        "schedule": Betas(betas=tuple(NoiseSchedule.linear(T).betas.tolist())),
        "seed": 0,
        "images": {"train": 9},
        "shape": (1, 8, 8),
        "draws": 5,
        "timesteps": tuple(range(0, T, 7)),
        "losses": {"train": Losses.of(LOSSES)},
    }
    return Timesteps(**(facts | changes))


def test_what_is_written_is_read(tmp_path):
    written = document()
    written.write(tmp_path / "timesteps.json")
    assert Timesteps.read(tmp_path / "timesteps.json") == written
    assert written.judged == written.losses["train"]


def test_tables_are_means_errors_and_mean_squares():
    found = Losses.of(LOSSES)
    np.testing.assert_allclose(found.mean, LOSSES.mean(1))
    np.testing.assert_allclose(np.square(found.stderr), LOSSES.var(1, ddof=1) / 5)
    np.testing.assert_allclose(found.second_moment, (LOSSES**2).mean(1))


def test_between_measured_timesteps_logarithms_are_linear_in_log_snr():
    """A power of the SNR is given back to the last digit inside, and held beyond both ends."""
    schedule, steps = NoiseSchedule.linear(T), (3, 10, 40)
    config = schedule.snr.numpy() ** 0.3
    found = document(timesteps=steps, losses={"train": Losses.of(np.stack([LOSSES[0]] * 3))})
    everywhere = found.everywhere(tuple(config[list(steps)].tolist()))
    np.testing.assert_allclose(everywhere[3:41], config[3:41], rtol=1e-12)
    assert set(everywhere[:4]) == {everywhere[3]}
    assert set(everywhere[40:]) == {everywhere[40]}


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": 2}, "format: 2"),
        ({"timesteps": [0, 1]}, "losses: a table of 8 figures; there are 2 timesteps"),
        ({"timesteps": [0, 7, 14, 21, 28, 42, 35, 49]}, "timesteps: must rise, within 0 … 49"),
        ({"schedule": {"kind": "variance_preserving", "betas": [0.5, 1.5]}}, "betas outside (0, 1)"),
        ({"images": {}}, "losses: must be of the splits that `images` names"),
        ({"further": 1}, "further: unknown key"),
    ],
)
def test_what_is_no_profile_is_refused_in_a_line(tmp_path, changes, complaint):
    path = tmp_path / "timesteps.json"
    document().write(path)
    write_json(path, read_json(path) | changes)
    said = refusal(Timesteps.read, path)
    assert said.startswith(f"{path}: ") and complaint in said


@given(st.sets(st.integers(0, 49), min_size=1))
def test_a_measured_timestep_stands_for_those_that_it_is_nearest_to(chosen):
    assert shares_of(np.array(sorted(chosen)), 50).sum() == pytest.approx(1)
    np.testing.assert_allclose(shares_of(np.arange(50), 50), 1 / 50)
    np.testing.assert_allclose(shares_of(np.array([0, 4, 9]), 10), [0.25, 0.45, 0.3])


SCHEDULES = [NoiseSchedule.linear(1000), NoiseSchedule.cosine(1000), Flow(1000, 3.0)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda one: one.name)
def test_log_snr_and_time_are_both_covered(schedule):
    found = spread(schedule, 100)
    assert (found[0], found[-1]) == (0, 999)
    assert len(found) > 80
    # In the sum of two shares, no gap is more than two hundredths of each.
    log_snr = schedule.snr.log().numpy()[found]
    inner = slice(2, -2)  # near the ends of a flow or a cosine a single timestep crosses more
    assert np.diff(found).max() <= 2 / 99 * 999 + 1
    assert -np.diff(log_snr)[inner].min() <= 3 / 99 * (log_snr[0] - log_snr[-1])
