"""Boundaries in all their units, by published figures."""

import pytest

from studies.boundary.report_borders import published, steps_of
from unequal.settings.evaluation import Sampling
from unequal.settings.schedule import FlowSchedule


@pytest.mark.parametrize(
    ("shift", "which", "shifted", "unshifted", "decibels"),
    [(12.0, 0, 0.875, 0.368, -16.90), (5.0, 1, 0.9, 0.643, -19.08)],
)
def test_published_boundaries_on_their_own_schedules(
    shift: float, which: int, shifted: float, unshifted: float, decibels: float
) -> None:
    schedule = FlowSchedule(name="flow", timesteps=1000, shift=shift)
    steps = steps_of(Sampling(steps=40, spacing="uniform", eta=0.0, clip=True, batch_size=8), schedule)
    one = published(schedule, steps)[which]
    assert one.shifted == pytest.approx(shifted)
    assert one.unshifted == pytest.approx(unshifted, abs=5e-4)
    assert one.decibels == pytest.approx(decibels, abs=5e-3)
    # Uniform steps are as often above the boundary as uniform times are before they are shifted.
    assert one.noise_steps == pytest.approx(1 - unshifted, abs=1 / 40)
    assert one.noise_mass == pytest.approx(1 - unshifted, abs=2e-3)
