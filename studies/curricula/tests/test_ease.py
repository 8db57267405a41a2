"""Where learning is easy, of made-up losses whose answers are known by hand; and the study's page."""

from typing import Any

import numpy as np
import pytest
from one_line import refusal

from studies.curricula.report_ease import Ease, eases

FIRST = [0, 10, 30, 50, 70, 90]
#: At the end half of the loss is left near data, a hundredth near noise.
END = np.array([0.5, 0.5, 0.3, 0.2, 0.01, 0.01])


def training(shift: float) -> dict[str, Any]:
    snapshot = np.array([0.75, 0.75, 0.4, 0.3, 0.05, 0.05]) * np.exp(shift)
    points = [(100, snapshot), (200, END)]
    path = [
        {"images": n, "fid": 100 / n, "loss_over_timesteps": losses.mean(), "curve": losses.tolist()}
        for n, losses in points
    ]
    return {"curve": {"timesteps": [100], "first": FIRST, "loss": END.tolist()}, "path": path}


def found() -> Ease:
    (one,) = eases([training(shift) for shift in (-0.02, 0.0, 0.02)])
    return one


def test_both_measures_are_those_by_hand() -> None:
    one = found()
    data, noise = one.at_ends(one.done)
    assert (data[1], noise[1]) == (pytest.approx(0.5), pytest.approx(0.95 / 0.99))
    data, noise = np.exp(one.at_ends(one.excess))
    assert (data[1], noise[1]) == (pytest.approx(1.5), pytest.approx(5.0))
    assert one.images == 100


def test_leads_are_reported_with_their_interval_over_trainings() -> None:
    one = found()
    lead, low, high = one.lead(one.excess)
    assert np.exp(lead) == pytest.approx(5 / 1.5)
    assert [low, high] == pytest.approx([lead, lead])  # what all timesteps share cancels
    # Student's t of two degrees of freedom, over three trainings.
    lead, low, high = one.lead(one.done)
    differences = np.subtract(*one.at_ends(one.done)[::-1])
    assert (high - low) / 2 == pytest.approx(4.3027 * differences.std(ddof=1) / 3**0.5, rel=1e-4)


def test_trainings_without_a_path_or_without_ends_are_refused() -> None:
    assert "trainings without a path; measure them along" in refusal(eases, [training(0.0) | {"path": None}])
    one_bin = training(0.0) | {"curve": training(0.0)["curve"] | {"first": [0], "timesteps": [100]}}
    assert "no bin of 100 timesteps lies within 0.3·T of an end" in refusal(eases, [one_bin])
