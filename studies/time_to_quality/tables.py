"""Time to quality as a table for people and as one for programs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.time_to_quality.findings import Comparison
from unequal.reporting.tables import label, mean_and_sd, sd, with_prefix

COLUMNS = ("recipe", "batch", "images seen", "final FID", "FID above the baseline's", "speed-up", "reached it")


def table_rows(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """The comparisons as cells for people."""
    return [
        (
            label(one.recipe),
            one.batch,
            with_prefix(one.images),
            mean_and_sd(one.fids),
            mean_and_sd([ours - theirs for ours, theirs in zip(one.fids, one.baseline_fids, strict=True)], signed=True),
            f"{mean_and_sd(one.speed_ups)} ×" if one.speed_ups else "–",
            f"{len(one.speed_ups)} of {len(one.reached)}",
        )
        for one in comparisons
    ]


def baseline_rows(comparisons: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """The baselines, one row a batch, for the same table."""
    once = {(one.baseline, one.batch): one for one in comparisons}
    return [
        (label(name), batch, with_prefix(one.images), mean_and_sd(one.baseline_fids), "0", "1 ×", "–")
        for (name, batch), one in once.items()
    ]


def rows(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The same as rows of a CSV; spreads are standard deviations over training seeds."""
    return [
        {
            "recipe": one.recipe,
            "baseline": one.baseline,
            "batch": one.batch,
            "images": one.images,
            "fid_mean": float(np.mean(one.fids)),
            "fid_sd": sd(one.fids),
            "baseline_fid_mean": float(np.mean(one.baseline_fids)),
            "baseline_fid_sd": sd(one.baseline_fids),
            "speed_up_mean": float(np.mean(one.speed_ups)) if one.speed_ups else "",
            "speed_up_sd": sd(one.speed_ups) if len(one.speed_ups) > 1 else "",
            "seeds": len(one.fids),
            "seeds_that_reached_it": len(one.speed_ups),
        }
        for one in comparisons
    ]
