"""Pictures: what is drawn lies where the figures say, names do not overlap, bytes repeat."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from unequal.errors import UserError
from unequal.evaluation.loss_profile import relative_change
from unequal.report.drawing import binned, colour, log_bins, log_scale, picture_grid, save
from unequal.report.forest import ForestRow, forest_plot
from unequal.report.heads import head_wins, read_wins
from unequal.report.pictures import (
    binned_ratio,
    loss_changes,
    sampler_probabilities,
    slot_changes,
)
from unequal.report.results import SlotChange
from unequal.runtime.files import write_npz
from unequal.timesteps.partition import Partition

T = 60
SLOTS = Partition([(0, 5), (6, 20), (21, 59)])


def drawn(draw: Callable[[Figure], None]) -> Figure:
    figure = Figure(figsize=(8, 4), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    return figure


@given(st.integers(2, 3000))
def test_bins_cover_all_timesteps_once(timesteps: int) -> None:
    borders = log_bins(timesteps)
    assert (borders[0], borders[-1]) == (0, timesteps)
    assert (np.diff(borders) > 0).all()


def test_a_bin_is_the_mean_of_its_timesteps() -> None:
    table = np.random.default_rng(0).uniform(size=(10, 7))
    x, profile = binned(table, np.array([0, 1, 4, 10]))
    assert x == pytest.approx([1, np.sqrt(8), np.sqrt(50)])
    assert profile.mean == pytest.approx([table[0].mean(), table[1:4].mean(), table[4:].mean()])
    # Timesteps are strata of equal size: variances of their means add.
    strata = table[1:4].var(1, ddof=1) / 7
    assert profile.stderr[1] == pytest.approx(np.sqrt(strata.sum()) / 3)


def test_changes_are_drawn_as_ratios_to_the_base() -> None:
    base = np.geomspace(1, 0.001, T)[:, None] * np.random.default_rng(0).uniform(0.9, 1.1, (T, 4))
    figure = drawn(partial(loss_changes, losses={"base": base, "slot_2": 3 * base}, slots=SLOTS))
    whole, inside = figure.axes[0].get_lines()[:2]
    assert np.asarray(whole.get_ydata()) == pytest.approx(3)
    assert (np.asarray(inside.get_xdata()).min(), np.asarray(inside.get_xdata()).max()) == pytest.approx((7, 21), abs=1)


def test_a_ratio_of_bins_has_the_error_of_paired_draws() -> None:
    random = np.random.default_rng(0)
    before = random.uniform(1, 3, (10, 40))
    after = before * random.normal(0.8, 0.01, before.shape)
    x, ratio, error = binned_ratio(before, after, np.array([0, 1, 4, 10]))
    assert x == pytest.approx([1, np.sqrt(8), np.sqrt(50)])
    for i, part in enumerate((slice(0, 1), slice(1, 4), slice(4, 10))):
        assert (ratio[i] - 1, error[i]) == pytest.approx(relative_change(before[part], after[part]))
    unpaired = [np.hypot(*(table[0].std(ddof=1) / table[0].mean() for table in (before, after))) / 40**0.5]
    assert error[0] < unpaired[0] / 10


def test_the_heat_map_holds_the_changes_in_percent() -> None:
    found = [SlotChange(row, slot, 0.1 * row - 0.2 * slot, 0.0001) for row in (1, 3) for slot in (1, 2, 3)]
    figure = drawn(partial(slot_changes, changes=found, count=3))
    axes = figure.axes[0]
    assert np.asarray(axes.images[0].get_array()) == pytest.approx(np.array([[-10, -30, -50], [10, -10, -30]]))
    assert axes.texts[0].get_text() == "−10.0\n± < 0.1"
    framed = [(patch.get_x() + 0.5, patch.get_y() + 0.5) for patch in axes.patches]  # type: ignore[attr-defined]
    assert framed == [(0, 0), (2, 1)]


@pytest.mark.parametrize("channels", [1, 3])
def test_the_grid_keeps_pixels_and_order(channels: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (20, channels, 8, 8), dtype=np.uint8)
    figure = drawn(partial(picture_grid, rows={"base": images, "longer": images[::-1]}))
    wall = np.asarray(figure.axes[0].images[0].get_array())
    assert wall.shape[:2] == (8 + 1 + 8, 16 * 9 - 1)
    second = wall[:8, 9:17].reshape(8, 8, channels).transpose(2, 0, 1)
    assert np.array_equal(second, images[1])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["base", "longer"]


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    samplers = {"longer": [np.full(T, 1 / T)], "stratified": [np.full(T, 2 / T), np.full(T, 1 / T)]}
    draw = partial(sampler_probabilities, samplers=samplers, slots=SLOTS)
    first, second = (tmp_path / name / "a.png" for name in ("x", "y"))
    for path in (first, second):
        save(path, (6, 3), draw)
    assert first.read_bytes() == second.read_bytes()
    with Image.open(first) as image:
        assert image.width > 900
        assert "Software" not in image.info


def test_a_forest_plot_holds_changes_intervals_and_verdicts() -> None:
    rows = [ForestRow("half", -0.5, -0.6, -0.4, "better"), ForestRow("more", 0.1, -0.1, 0.3, "undecided")]
    axes = drawn(partial(forest_plot, rows=rows, delta=0.05)).axes[0]
    intervals, points = axes.get_lines()[1::2], axes.get_lines()[2::2]
    assert [np.expm1(np.asarray(line.get_xdata())) for line in points] == [pytest.approx(row.change) for row in rows]
    ends = [np.expm1(np.asarray(line.get_xdata(), float)) for line in intervals]
    assert np.array(ends) == pytest.approx(np.array([[row.low, row.high] for row in rows]))
    assert [text.get_text() for text in axes.texts] == ["better", "undecided"]
    assert points[0].get_markerfacecolor() != points[1].get_markerfacecolor() == "white"


def test_an_outlier_does_not_stretch_a_forest_plot() -> None:
    """Its arrow stands at the edge with the number, and a key explains every kind of mark."""
    usual = [ForestRow(f"row {n}", -0.02, -0.03, -0.01, "better", detectable=0.015) for n in range(4)]
    outlier = ForestRow("outlier", 31.1, 29, 33, "worse")
    figure = drawn(partial(forest_plot, rows=[*usual, outlier], delta=0.01))
    axes = figure.axes[0]
    assert np.expm1(axes.get_xlim()[1]) < 0.05
    assert [line.get_marker() for line in axes.get_lines()].count(">") == 1
    assert "+3,110 %" in [text.get_text() for text in axes.texts]
    key = [text.get_text() for text in figure.legends[0].get_texts()]
    assert key == ["better", "worse", "the same within δ", "least change that this study detects"]


@pytest.mark.parametrize("limits", [(0.5, 4), (0.9, 1.5), (0.01, 30), (1, 9)])
def test_numbers_of_a_log_axis_do_not_overlap(limits: tuple[float, float]) -> None:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.set_ylim(*limits)
        log_scale(axes, "{:g} ×")

    (axes,) = drawn(draw).axes
    places = axes.transData.transform([(0, tick) for tick in axes.get_yticks() if limits[0] <= tick <= limits[1]])[:, 1]
    assert len(places) > 2
    assert np.diff(places).min() > 10 / 72 * axes.figure.dpi  # a line of text of 10 points


def test_wins_of_heads_are_drawn_as_shares_of_each_bin(tmp_path: Path) -> None:
    """Two bins of two and of T − 2 timesteps: x0 wins a quarter of the first, ε all of the second."""
    counts = np.array([[[1, 0, 3], [0, 0, 0]], [[1, 1, 2], [0, 0, 5]]])
    write_npz(tmp_path / "wins.npz", wins=counts, bins=np.repeat([0, 1], [2, T - 2]))
    wins = read_wins(tmp_path / "wins.npz")
    assert wins.edges.tolist() == [1, 3, T + 1]
    beginning, end = drawn(partial(head_wins, wins=wins)).axes
    # Areas from the bottom: ε, v, x0; the last corner of each lies at its upper edge in the first bin.
    heights = [area.get_paths()[0].get_extents().ymax for area in end.collections]
    assert heights == pytest.approx([1, 1, 1])
    first = [area.get_paths()[0].vertices for area in end.collections]
    assert [float(at[at[:, 0] == 1][:, 1].max()) for at in first] == pytest.approx([0.5, 0.75, 1])
    assert np.isnan(wins.shares(0)[1]).all()
    assert len(beginning.collections) == 3


@pytest.mark.parametrize(
    ("wins", "bins"), [(np.ones((2, 2, 2)), [0, 1]), (np.ones((2, 2, 3)), [0, 0]), (np.ones((2, 3)), [0, 1])]
)
def test_wins_that_do_not_fit_are_refused(tmp_path: Path, wins: np.ndarray, bins: list[int]) -> None:
    write_npz(tmp_path / "wins.npz", wins=wins, bins=np.array(bins))
    with pytest.raises(UserError, match="do not fit; make it again"):
        read_wins(tmp_path / "wins.npz")


def test_experts_of_a_set_have_colours_of_their_own() -> None:
    names = ["base", *(f"experts_{kind}_group_{group}" for kind in ("pruned", "unpruned") for group in range(4))]
    shades = np.array([to_rgb(colour(name)) for name in names])
    apart = [np.abs(one - other).max() for i, one in enumerate(shades) for other in shades[:i]]
    assert min(apart) > 0.05
