"""Profiles side by side: pictures and tables hold the losses that were put in, in every space."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.drawing import GOLD, INK, RED, binned, log_bins
from unequal.report.formatting import with_prefix
from unequal.report.pipeline_pictures import GREEN, space_profiles
from unequal.report.pipeline_tables import comparison_rows, losses_table

SCHEDULE = NoiseSchedule.linear(60)
NO_FLOOR = np.zeros((60, 0))


def losses() -> dict[str, dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    base = {
        split: np.geomspace(1, 0.01, 60)[:, None] * random.uniform(0.9, 1.1, (60, 4)) for split in ("train", "holdout")
    }
    return {"base": base, "longer": {split: 2 * table for split, table in base.items()}}


def test_every_panel_shows_the_losses_in_its_own_space() -> None:
    found = losses()
    floor = found["base"]["train"] / 4
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    space_profiles(figure, losses=found, floor=floor, schedule=SCHEDULE)
    snr, alpha2 = SCHEDULE.snr.numpy()[:, None], SCHEDULE.alphas_cumprod.numpy()[:, None]
    for axes, factor in zip(figure.axes, (1, 1 / alpha2, 1 / snr), strict=True):
        shown = {to_hex(line.get_color()): np.asarray(line.get_ydata()) for line in axes.get_lines()}
        base = factor * found["base"]["train"]
        expected = {INK: base, RED: factor * found["base"]["holdout"], GOLD: base / 4, GREEN: 0.75 * base}
        for colour, table in expected.items():
            np.testing.assert_allclose(shown[colour], binned(table, log_bins(60))[1].mean)


def test_the_table_of_losses_holds_ratios_of_all_spaces() -> None:
    """A loss of α² in ε-space is 1 in v-space, and σ² in x0-space."""
    alpha2 = np.repeat(SCHEDULE.alphas_cumprod.numpy()[:, None], 3, axis=1)
    found = {"base": {"train": alpha2, "holdout": 2 * alpha2}}
    (row,) = losses_table(found, 0 * alpha2, SCHEDULE).rows
    ratios = (alpha2.max() / alpha2.min(), 1.0, (1 - alpha2).max() / (1 - alpha2).min())
    assert list(row[1:4]) == [with_prefix(ratio) for ratio in ratios]
    means = [float(cell.split(" ± ")[0]) for cell in row[4:]]
    assert means == pytest.approx([alpha2.mean(), 2 * alpha2.mean(), alpha2.mean()], rel=1e-2)


def test_rows_compare_every_model_with_floor_and_base() -> None:
    found = losses()
    base = found["base"]["train"]
    rows = comparison_rows(found, base / 2)
    assert [row["timestep"] for row in rows] == list(range(60))
    for name, expected in (("floor", base / 2), ("base_excess", base / 2), ("longer_excess", 1.5 * base)):
        np.testing.assert_allclose([row[name] for row in rows], expected.mean(1), rtol=1e-4)
        errors = expected.std(1, ddof=1) / 2
        np.testing.assert_allclose([row[f"{name}_stderr"] for row in rows], errors, rtol=1e-4)
    assert [row["longer_change"] for row in rows] == pytest.approx([1.0] * 60)
    assert max(row["longer_change_stderr"] for row in rows) < 1e-12
    assert set(comparison_rows(found, NO_FLOOR)[0]) == {"timestep", "longer_change", "longer_change_stderr"}
