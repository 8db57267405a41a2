"""What ranges of timesteps contribute, as tables."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from studies.contribution.findings import SYMBOLS, ModelRuns, Pair, Quality, by_prediction, mean_and_error
from unequal.diffusion.posterior import posterior
from unequal.diffusion.schedule import NoiseSchedule
from unequal.report.formatting import plus_minus, with_prefix
from unequal.report.page import Table

RANGES_NOTE = (
    "Timesteps are counted from 1, the last step is never replaced, and all runs share images and noise. "
    "Later replacement is favoured by construction: fewer steps of the network follow it, and the last prediction "
    "is made from what the truth has left. A model of x0 makes the image itself in its last step, whatever came "
    "before; those of ε and v then add little to what they are given. "
    "Colour shift is |mean over pixels of (sample − truth)| in 8-bit units, averaged over channels. "
    "Each image is averaged over trainings; ± is the standard error over images."
)


def range_table(trainings: Sequence[ModelRuns]) -> Table:
    """PSNR and colour shift of every range, for each prediction."""
    groups = by_prediction(trainings)
    columns = [f"{SYMBOLS[name]}: {figure}" for name in groups for figure in ("PSNR in dB", "colour shift")]

    def cells(of: Callable[[ModelRuns], Quality]) -> list[str]:
        return [cell for found in groups.values() for cell in over_images([of(one) for one in found])]

    rows = [["nothing", *cells(lambda one: one.unreplaced)]]
    for pair in trainings[0].ranges:
        rows.append([str(list(pair)), *cells(partial(within, pair))])
    enlarged = ["no model: the low-resolution image, enlarged", *cells(lambda one: one.low_resolution)]
    return Table("What replacing x0 mends", ["x0 replaced within", *columns], rows, RANGES_NOTE, [enlarged])


def within(pair: Pair, training: ModelRuns) -> Quality:
    """What is left with x0 replaced in a range."""
    return training.ranges[pair]


def over_images(qualities: Sequence[Quality]) -> list[str]:
    """PSNR and colour shift as cells: each image's mean over trainings, then mean ± standard error over images."""
    by_image = (np.mean(values, axis=0) for values in zip(*qualities, strict=True))
    return [plus_minus(*mean_and_error(values)) for values in by_image]


def prediction_table(trainings: Sequence[ModelRuns]) -> Table:
    """PSNR and colour shift of every training with nothing replaced, and what it had seen and cost."""
    rows = [
        [one.name, *over_images([one.unreplaced]), with_prefix(one.images_seen), with_prefix(one.training_flops)]
        for one in trainings
    ]
    columns = ["prediction, batch, training seed", "PSNR in dB", "colour shift", "images seen", "training FLOPs"]
    return Table("Predictions compared", columns, rows, "± is the standard error over images of one training.")


def csv_rows(trainings: Sequence[ModelRuns]) -> list[dict[str, Any]]:
    """Every run of every training as a row; what has no range leaves it empty."""
    found = []
    for one in trainings:
        named: dict[tuple[str, Any, Any], Quality] = {("none", "", ""): one.unreplaced}
        named |= {("range", *pair): quality for pair, quality in one.ranges.items()}
        named |= {("window", *pair): quality for pair, quality in one.windows.items()}
        for (kind, first, last), quality in named.items():
            place = {"replaced": kind, "first": first, "last": last}
            found.append({"prediction": one.prediction, "trial": one.trial} | place | figures_of(quality))
    return found


def figures_of(quality: Quality) -> dict[str, float]:
    """Mean and standard error over images of PSNR and colour shift."""
    found = {}
    for name, values in quality._asdict().items():
        found[f"{name}_mean"], found[f"{name}_stderr"] = mean_and_error(values)
    return found


def coefficient_rows(schedule: NoiseSchedule) -> list[dict[str, float]]:
    """The coefficients of the posterior's mean at every timestep, counted from 1."""
    found = posterior(schedule)
    columns = zip(found.x0.tolist(), found.x_t.tolist(), strict=True)
    return [{"timestep": t, "x0": x0, "x_t": x_t} for t, (x0, x_t) in enumerate(columns, 1)]
