"""Groups and losses in the report: what is drawn and tabulated is what was put in."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.formatting import with_prefix
from unequal.report.pipeline_pictures import groups_and_limits
from unequal.report.pipeline_tables import (
    REQUEST_COLUMNS,
    groups_table,
    losses_table,
    requests_table,
    searches_table,
)
from unequal.report.pipeline_tables import SEARCH_COLUMNS as COLUMNS
from unequal.training.timestep_files import GroupTable, NumberedGroup

GROUPS = GroupTable(
    timesteps=60,
    schedule="linear",
    kind="snr",
    min_ratio=0.5,
    groups=(
        NumberedGroup(group=0, first=0, last=19, limit_ratio=0.75),
        NumberedGroup(group=1, first=20, last=59, limit_ratio=1.0),
    ),
)


def test_lines_lie_at_limits_shares_and_the_mean_over_timesteps() -> None:
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    groups_and_limits(figure, groups=GROUPS, shares=[0.7, 0.99])
    drawn = [lines.get_segments() for lines in figure.axes[1].collections if isinstance(lines, LineCollection)]
    limits, shares = [[[point.tolist() for point in line] for line in lines] for lines in drawn]
    assert limits == [[[0, 0.75], [20, 0.75]], [[20, 1.0], [60, 1.0]]]
    assert shares == [[[0, 0.7], [20, 0.7]], [[20, 0.99], [60, 0.99]]]
    mean = next(line for line in figure.axes[1].get_lines() if str(line.get_label()).startswith("mean limit"))
    assert np.unique(np.asarray(mean.get_ydata())) == pytest.approx([(20 * 0.75 + 40 * 1.0) / 60])


def test_the_table_names_timesteps_limits_and_steps() -> None:
    table = groups_table(GROUPS, [0.7, 0.99], (17, 33))
    assert [(row[0], row[1], *row[3:]) for row in table.rows] == [
        ("0", "0 – 19", "0.750", "0.700", "17"),
        ("1", "20 – 59", "1.00", "0.990", "33"),
    ]
    # β of the first timestep is 1e-4 · 1000/60: ᾱ/(1 − ᾱ) = 599, 27.8 dB.
    assert table.rows[0][2].startswith("27.8 … ")
    assert "Mean limit over timesteps: 0.917" in table.note
    assert [row[-1] for row in groups_table(GROUPS, [0.7, 0.99], ()).rows] == ["–", "–"]


SEARCHED = {"candidates": 8, "loss": 0.1, "fresh_loss": 0.12}


def test_a_search_stands_beside_as_many_random_schemes_on_fresh_draws() -> None:
    (row,) = searches_table({3: SEARCHED | {"control_fresh_loss": 0.15}}).rows
    assert row == ("3", "8", "0.1", "0.12", "0.15", "−20.0 %")
    assert len(row) == len(COLUMNS)


def test_requests_to_a_language_model_are_shown_where_there_were_any() -> None:
    means = {"seconds_a_round": 12.345, "prompt_tokens_a_round": 15000.0, "completion_tokens_a_round": None}
    asked = SEARCHED | {"language_model": {"rounds": 5, "requests": 7, "usd_a_round": 0.01234} | means}
    table = requests_table({1: SEARCHED, 3: asked})
    assert table is not None
    assert table.rows == [("3", "7", "12.3", "15,000", "–", "0.0123")]
    assert len(table.columns) == len(REQUEST_COLUMNS) == len(table.rows[0])
    assert requests_table({1: SEARCHED}) is None


SCHEDULE = NoiseSchedule.linear(60)
NO_FLOOR = np.zeros((60, 0))


def test_the_table_of_losses_holds_ratios_of_all_spaces() -> None:
    """A loss of α² in ε-space is 1 in v-space, and σ² in x0-space."""
    alpha2 = np.repeat(SCHEDULE.alphas_cumprod.numpy()[:, None], 3, axis=1)
    found = {"base": {"train": alpha2, "holdout": 2 * alpha2}}
    (row,) = losses_table(found, 0 * alpha2, SCHEDULE).rows
    ratios = (alpha2.max() / alpha2.min(), 1.0, (1 - alpha2).max() / (1 - alpha2).min())
    assert list(row[1:4]) == [with_prefix(ratio) for ratio in ratios]
    means = [float(cell.split(" ± ")[0]) for cell in row[4:]]
    assert means == pytest.approx([alpha2.mean(), 2 * alpha2.mean(), alpha2.mean()], rel=1e-2)
