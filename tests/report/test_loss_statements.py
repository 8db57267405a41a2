"""What losses show, on made-up numbers."""

import numpy as np
import pytest

from unequal.measures.loss_profile import LossProfile
from unequal.report.pipeline_statements import slot_statements, spread_of_losses
from unequal.report.results import Change

CHANGES = [Change(1, 1, -0.1, 0.01), Change(1, 2, 0.5, 0.02), Change(2, 1, 0.01, 0.01), Change(2, 2, -0.03, 0.01)]


def test_losses_differ_by_their_ratio_with_its_error() -> None:
    found = spread_of_losses(LossProfile(np.array([10.0, 1.0, 0.01]), np.array([0.1, 0.1, 0.0001])))
    # Both have a relative error of 1 %: √2 % of 1000.
    assert found.text == "The base's training loss at t = 0 is 1000 ± 14 times its loss at t = 2."
    assert found.figures == pytest.approx(
        {"ratio": 1000, "ratio_stderr": 10 * 2**0.5, "largest_at": 0, "smallest_at": 2}
    )


def test_slots_are_told_inside_and_outside() -> None:
    own, others = slot_statements({"train": CHANGES, "holdout": CHANGES})
    assert own.text == (
        "Training the base on inside one slot changed the training loss of that slot by −10.0 ± 1.0 to −3.0 ± 1.0 %, "
        "and its held-out loss by −10.0 ± 1.0 to −3.0 ± 1.0 %."
    )
    assert others.text == (
        "Of the 2 training losses of other slots 1 rose and 0 fell by more than 2 standard errors; they changed by "
        "+1.0 ± 1.0 to +50.0 ± 2.0 %."
    )
    assert own.figures["2_holdout_percent"] == pytest.approx(-3)
    assert (others.figures["rose"], others.figures["most_percent"]) == pytest.approx((1, 50))


def test_a_single_slot_has_no_others_and_no_slot_has_nothing() -> None:
    (own,) = slot_statements({"train": CHANGES[:1], "holdout": CHANGES[:1]})
    assert "of that slot by −10.0 ± 1.0 %, and" in own.text
    assert slot_statements({"train": [], "holdout": []}) == []
