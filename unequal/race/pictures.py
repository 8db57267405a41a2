"""Pictures of a race: FID over images, a forest plot of the finalists, and samples of control and winner."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.special import stdtrit

from unequal.data.prepared import PreparedData
from unequal.race.bracket import training_name
from unequal.race.claim import LOOK
from unequal.race.findings import Standing, called
from unequal.race.plan import CONFIRM, FINALS, FURTHER, SHORT, WHOLE, whole_results
from unequal.race.standing import best_of_arms, means
from unequal.report.drawing import INK, RED, log_scale, picture_grid
from unequal.report.forest import ForestRow, forest_plot, forest_size
from unequal.report.formatting import label, with_prefix
from unequal.report.memorizing import SHOWN, grid_size, memorizing_rows, spread
from unequal.report.page import Drawing
from unequal.statistics.verdicts import LEVEL

#: Colours of variants in the order of the settings; there are enough for all shipped variants to differ.
CYCLE = [to_hex(one) for one in matplotlib.colormaps["tab20"].colors]  # type: ignore[attr-defined]
#: Held-out images whose distances from training images are measured.
HELD_OUT = 64


def points(standing: Standing) -> dict[str, dict[float, float]]:
    """Variant → images of its trainings → FID at its best learning rate, geometric mean over seeds."""
    race, done, found = standing.race, standing.done, dict[str, dict[float, float]]()
    rungs = [(race.short.share if race.short else 1.0, done.get(SHORT, {})), (1.0, done.get(WHOLE, {}))]
    if standing.has_whole:
        rungs.append((1.0, whole_results(done)))  # finalists have the mean of all their whole trainings
    for share, results in rungs:
        average = means(results)
        for arm, one in best_of_arms(results).items():
            if math.isfinite(average[one]):
                found.setdefault(arm, {})[share * race.recipe.images] = math.exp(average[one])
    return found


def draw_over_images(standing: Standing, figure: Figure) -> None:
    """Draw FID over images: one line per variant, a cross where it drops out, and rings for fresh seeds."""
    axes, whole, curves = figure.subplots(), standing.race.recipe.images, points(standing)
    inks = {one.arm: ink for one, ink in zip(standing.pair, (RED, INK), strict=True)}
    own = {arm: CYCLE[place % len(CYCLE)] for place, arm in enumerate(standing.race.arms)}
    for arm, curve in curves.items():
        style: dict[str, Any] = {"color": own[arm], "alpha": 0.7, "linewidth": 1.2}
        if arm in inks:
            style = {"color": inks[arm], "linewidth": 2.2, "zorder": 3}
        axes.plot(list(curve), list(curve.values()), "-o", markersize=4, label=label(arm), **style)
        if (end := max(curve)) < whole:
            axes.plot(end, curve[end], "x", color=style["color"], markersize=9)
    for rung in (CONFIRM, FURTHER):
        for one in standing.pair:
            logs = standing.done.get(rung, {}).get(one, {}).values()
            fids = [math.exp(value) for value in logs if value < math.inf]
            axes.plot([whole * 1.06] * len(fids), fids, "o", color=inks[one.arm], markerfacecolor="white")
    ticks = sorted({images for curve in curves.values() for images in curve})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [with_prefix(one) for one in ticks])
    axes.minorticks_off()
    axes.set_xlabel("images seen")
    axes.set_ylabel("FID")
    log_scale(axes, "{:g}")
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))


def over_images(standing: Standing) -> Drawing:
    """Picture of FID over images."""
    caption = (
        "Each variant at its best learning rate, mean over seeds; every point is a training of its own, decayed to its "
        "end. × a variant that did not go on. Rings: winner (red) and control (blue) on fresh seeds."
    )
    draw = partial(draw_over_images, standing)
    return Drawing("fid_over_images", (9.0, 4.6), draw, "FID over images", caption)


def forest_row(name: str, difference: float, ends: tuple[float, float], text: str) -> ForestRow:
    """Row of a difference in ln(FID) with its interval."""
    change, low, high = np.expm1([difference, *ends]).tolist()
    return ForestRow(name, change, low, high, text)


def forest_rows(standing: Standing) -> list[ForestRow]:
    """Rows of the variants of whole trainings against the control, and of the claim on fresh seeds."""
    results, scatter = whole_results(standing.done), standing.scatter
    winner, control = standing.pair
    average, rows = means(results), []
    error = math.sqrt(2 * scatter.variance / len(results[control]))
    half = float(stdtrit(scatter.freedom, 1 - LEVEL / 2)) * error if math.isfinite(error) else 0.0
    for arm, one in best_of_arms(results).items():
        difference = average[one] - average[control]
        if half and arm != control.arm and math.isfinite(difference):
            rows.append(forest_row(called(one), difference, (difference - half, difference + half), "in the race"))
    claim = standing.claim
    if claim is not None and claim.estimate is not None and math.isfinite(claim.low):
        difference, ends = claim.estimate.difference, (claim.low, claim.high)
        rows.append(forest_row(f"{called(winner)}, fresh", difference, ends, claim.word))
    return rows


def forest(standing: Standing) -> Drawing:
    """Forest plot of the finals."""
    rows, delta = forest_rows(standing), standing.race.delta
    caption = (
        f"Change of FID against {called(standing.pair[1])}, with 95 % intervals from the pooled scatter; fresh seeds "
        f"with {100 * (1 - LOOK):g} % intervals. The band is δ. The race's own figures flatter its winner."
    )
    draw = partial(forest_plot, rows=rows, delta=delta, text="change of FID")
    return Drawing("finals", forest_size(len(rows)), draw, "Finals", caption)


def samples(standing: Standing, folder: Path, data: PreparedData) -> Drawing | None:
    """Samples of control and winner from the same noise, with the winner's nearest training images and real ones."""
    winner, control = standing.pair
    rung = next(one for one in (CONFIRM, FINALS, WHOLE, SHORT) if one in standing.done)
    if winner not in standing.done[rung] or control not in standing.done[rung] or winner == control:
        return None
    block = next(iter(standing.done[rung][winner]))
    rows: dict[str, np.ndarray] = {
        called(one): np.load(folder / rung / f"{training_name(one, block)}.npy", allow_pickle=False)
        for one in (control, winner)
    }
    if any(len(one) == 0 for one in rows.values()):
        return None
    further, distance = memorizing_rows(rows[called(winner)], data.train, spread(data.holdout, HELD_OUT))
    shown = {name: images[:SHOWN] for name, images in (rows | further).items()}
    caption = (
        f"Control and winner from the same noise, seed {block}; not chosen by eye. Below: the training image nearest "
        f"to each of the winner's samples, by mean squared difference. {distance}"
    )
    return Drawing("samples", grid_size(len(shown)), partial(picture_grid, rows=shown), "Samples", caption)


def drawings(standing: Standing, folder: Path, data: PreparedData) -> list[Drawing]:
    """All pictures for which there are results."""
    finals = [forest(standing)] if standing.has_whole and forest_rows(standing) else []
    own = samples(standing, folder, data)
    return [over_images(standing), *finals, *([] if own is None else [own])]
