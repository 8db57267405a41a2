"""Tables and pictures of losses, slots and groups: what is drawn and tabulated is what was put in."""

from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import Errors
from unequal.report.figures import Pruning
from unequal.report.formatting import with_prefix
from unequal.report.pictures import groups_and_limits
from unequal.report.results import RunResults
from unequal.report.tables import (
    SEARCH_COLUMNS,
    SLOT_COLUMNS,
    groups_table,
    interference_rows,
    losses_table,
    search_row,
    slots_table,
)
from unequal.timesteps.partition import Partition
from unequal.training.timestep_files import GroupTable, NumberedGroup

T = 60
SCHEDULE = NoiseSchedule.linear(T)
GROUPS = GroupTable(
    timesteps=T,
    schedule="linear",
    kind="snr",
    min_ratio=0.5,
    groups=(
        NumberedGroup(group=0, first=0, last=19, limit_ratio=0.75),
        NumberedGroup(group=1, first=20, last=59, limit_ratio=1.0),
    ),
)
SEARCHED = Pruning(share_of_base=0.7, candidates=8, loss=0.1, fresh_loss=0.12)


def results(**fields: Any) -> RunResults:
    found: Any = object.__new__(RunResults)
    defaults: dict[str, Any] = {"scores": {}, "schedule": SCHEDULE, "groups": GROUPS, "prunings": {}, "errors": {}}
    for name, value in (defaults | fields).items():
        object.__setattr__(found, name, value)
    return found


def test_lines_lie_at_limits_shares_and_the_mean_over_timesteps() -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    groups_and_limits(figure, groups=GROUPS, shares={0: 0.7, 1: 0.99})
    drawn = [lines.get_segments() for lines in figure.axes[1].collections if isinstance(lines, LineCollection)]
    limits, shares = [[[point.tolist() for point in line] for line in lines] for lines in drawn]
    assert limits == [[[0, 0.75], [20, 0.75]], [[20, 1.0], [60, 1.0]]]
    assert shares == [[[0, 0.7], [20, 0.7]], [[20, 0.99], [60, 0.99]]]
    mean = next(line for line in figure.axes[1].get_lines() if str(line.get_label()).startswith("mean limit"))
    assert np.unique(np.asarray(mean.get_ydata())) == pytest.approx([(20 * 0.75 + 40 * 1.0) / 60])


def test_the_table_of_groups_names_timesteps_limits_and_shares() -> None:
    table = groups_table(results(prunings={0: SEARCHED}))
    assert [(row[0], row[1], *row[3:]) for row in table.rows] == [
        ("0", "0 – 19", "0.750", "0.700", "–"),
        ("1", "20 – 59", "1.00", "–", "–"),
    ]
    # β of the first timestep is 1e-4 · 1000/60: ᾱ/(1 − ᾱ) = 599, 27.8 dB.
    assert table.rows[0][2].startswith("27.8 … ")
    assert "Mean limit over timesteps: 0.917" in table.note


def test_a_search_stands_beside_as_many_random_schemes_on_fresh_draws() -> None:
    row = search_row(3, SEARCHED.model_copy(update={"control_fresh_loss": 0.15}))
    assert row == ("3", "8", "0.1", "0.12", "0.15", "−20.0 %", "–")
    asked = Pruning.model_validate(SEARCHED.model_dump() | {"language_model": {"requests": 7, "rounds": 5}})
    assert search_row(1, asked)[4:] == ("–", "–", "7")
    assert len(row) == len(SEARCH_COLUMNS)


def test_the_table_of_losses_holds_ratios_of_all_spaces() -> None:
    """A loss of α² in ε-space is 1 in v-space, and σ² in x0-space."""
    alpha2 = np.repeat(SCHEDULE.alphas_cumprod.numpy()[:, None], 3, axis=1)
    errors = {"base": {"train": Errors(alpha2, alpha2), "holdout": Errors(2 * alpha2, alpha2)}}
    (row,) = losses_table(results(errors=errors, floor=0 * alpha2)).rows
    ratios = (alpha2.max() / alpha2.min(), 1.0, (1 - alpha2).max() / (1 - alpha2).min())
    assert list(row[1:4]) == [with_prefix(ratio) for ratio in ratios]
    means = [float(cell.split(" ± ")[0]) for cell in row[4:]]
    assert means == pytest.approx([alpha2.mean(), 2 * alpha2.mean(), alpha2.mean()], rel=1e-2)


def test_slots_have_their_share_of_the_loss_and_what_fine_tuning_changed() -> None:
    base = np.repeat([3.0, 1.0], [20, 40])[:, None] * np.random.default_rng(0).uniform(0.9, 1.1, (T, 8))
    tuned = base * np.repeat([1.5, 0.5], [20, 40])[:, None]
    errors = {
        name: {split: Errors(losses, losses) for split in ("train", "holdout")}
        for name, losses in {"base": base, "slot_2": tuned}.items()
    }
    found = results(errors=errors, slots=Partition([(0, 19), (20, 59)]))
    first, second = slots_table(found).rows
    assert first[:2] + first[4:] == ("1", "0 – 19", "–", "–")
    assert second[4].startswith("−50.0 ± 0.") and second[4].endswith(" %")
    assert [float(row[3].removesuffix(" %")) for row in (first, second)] == pytest.approx([60, 40], abs=1)
    assert len(first) == len(SLOT_COLUMNS)
    changes = [(one["split"], one["slot"], one["change_percent"]) for one in interference_rows(found)]
    expected = [(split, slot, change) for split in ("train", "holdout") for slot, change in ((1, 50), (2, -50))]
    assert [(split, slot, pytest.approx(change)) for split, slot, change in expected] == changes
