"""The page of an experiment: forest plots, samples of all variants, a table of contrasts, one of means."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import expm1
from pathlib import Path
from typing import Any

import numpy as np

from unequal.experiments.declaration import Declared
from unequal.experiments.judging import Judgement
from unequal.experiments.ledger import RECORD
from unequal.report.drawing import picture_grid
from unequal.report.forest import ForestRow, forest_plot, forest_size
from unequal.report.formatting import label, signed, with_prefix
from unequal.report.page import Drawing, Report, Table, render
from unequal.runtime.files import json_or_none, write_bytes, write_csv

#: Endpoint → its name in text.
NAMES = {
    "loss_over_timesteps": "loss over timesteps",
    "loss_over_log_snr": "loss over log-SNR",
    "x0_loss_over_log_snr": "x0 error over log-SNR",
    "fid": "FID",
}
COLUMNS = ("endpoint", "change", "95 % interval", "p", "p (same)", "detectable", "verdict")
NOTE = (
    "Each training is one observation. Interval: of one contrast. p: Holm's over all contrasts of an endpoint, against "
    "no difference, and (same) against one of δ or more. Detectable: by so many trainings in four of five experiments."
)
#: Files of the page, below the folder of the experiment; CONTRASTS has the numbers of its first table.
RESULTS, CONTRASTS = Path("results"), "contrasts.csv"
#: Samples in a row of the picture, and characters of a contrast's name in a plot.
SAMPLES, LONGEST = 16, 60


def publish(
    folder: Path,
    declared: Declared,
    rows: Sequence[Mapping[str, Any]],
    judgements: Sequence[Judgement],
    diverged: Sequence[str],
) -> Path:
    """Write the page, its pictures and the table of contrasts.

    Args:
        folder: of the experiment.
        declared: what is asked.
        rows: of judged trainings.
        judgements: of all contrasts.
        diverged: variants of which a training diverged.
    """
    experiment, record = declared.experiment, json_or_none(folder / RECORD) or {}
    real, verdicts = record.get("fid_of_real_images"), [one.verdict for one in judgements]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
    report = Report(
        title=experiment.question,
        lead=f"{len(judgements)} contrasts, {len(experiment.seeds)} seeds: {counts or 'none judged'}",
        facts=" · ".join(f"{key} {record[key]}" for key in ("commit", "date", "hours") if key in record),
        tables=[
            contrasts_table(declared, judgements),
            means_table(declared, rows, diverged, real),
        ],
        conditions={key.replace("_", " "): str(one) for key, one in record.get("conditions", {}).items()},
        drawings=drawings(folder, declared, judgements),
        rows={},
    )
    page = folder / RESULTS / "report.html"
    write_bytes(page, render(report, folder / RESULTS / "pictures").encode())
    write_csv(folder / RESULTS / CONTRASTS, contrast_rows(declared, judgements))
    return page


def contrast_rows(declared: Declared, judgements: Sequence[Judgement]) -> list[dict[str, Any]]:
    """Rows of contrasts, with relative changes in the place of logarithms."""
    deltas = declared.experiment.endpoints
    rows = list[dict[str, Any]]()
    for one in judgements:
        relative = {name: expm1(getattr(one, name)) for name in ("low", "high")}
        named = {"differs_in": declared.named(one.variant, one.control), "change": expm1(one.difference)}
        kept = {name: value for name, value in asdict(one).items() if name not in ("difference", "error", "freedom")}
        rows.append(kept | relative | named | {"delta": deltas[one.endpoint]})  # type: ignore[index]
    return rows or [{"variant": "", "control": "", "verdict": ""}]


def contrasts_table(declared: Declared, judgements: Sequence[Judgement]) -> Table:
    """Table of all contrasts by all endpoints."""
    rows = [
        (
            declared.named(one.variant, one.control),
            NAMES[one.endpoint],
            f"{signed(100 * expm1(one.difference))} %",
            f"{signed(100 * expm1(one.low))} to {signed(100 * expm1(one.high))} %",
            f"{one.p_difference:.2g}",
            f"{one.p_same:.2g}",
            f"{100 * expm1(one.visible):.3g} %",
            one.verdict,
        )
        for one in judgements
    ]
    return Table("Contrasts", ("what differs", *COLUMNS), rows, NOTE)


def means_table(
    declared: Declared, rows: Sequence[Mapping[str, Any]], diverged: Sequence[str], real: float | None
) -> Table:
    """Table of variants: geometric means of endpoints over the seeds, rates and costs."""
    endpoints = [name for name in NAMES if name in declared.experiment.endpoints]
    lines = list[tuple[str, ...]]()
    for variant in declared.variants:
        own = [row for row in rows if row["variant"] == variant]
        if not own:
            lines.append(
                (label(variant), *("diverged" if variant in diverged else "–" for _ in range(len(endpoints) + 3)))
            )
            continue
        means = {name: np.exp(np.mean([np.log(float(row[name])) for row in own])) for name in endpoints}
        costs = (float(own[0][name]) for name in ("images", "training_flops"))
        lines.append(
            (
                label(variant),
                *(f"{one:.4g}" for one in means.values()),
                f"{float(own[0]['rate']):.3g}",
                *map(with_prefix, costs),
            )
        )
    columns = ("variant", *(NAMES[name] for name in endpoints), "learning rate", "images", "training FLOPs")
    ends = [f"{real:.4g}" if name == "fid" and real is not None else "" for name in endpoints]
    references = [("real images", *ends, "", "", "")] if any(ends) else []
    note = "Geometric means over the seeds; costs include those of the base."
    return Table("Variants", columns, lines, note, references)


def drawings(folder: Path, declared: Declared, judgements: Sequence[Judgement]) -> list[Drawing]:
    """A forest plot for each endpoint, and samples of all variants from the same noise, where they are at hand."""
    drawn = list[Drawing]()
    for endpoint, delta in declared.experiment.endpoints.items():
        rows = [forest_row(declared, one) for one in judgements if one.endpoint == endpoint]
        if rows:
            draw = partial(forest_plot, rows=rows, delta=delta, text=NAMES[endpoint])
            drawn.append(Drawing(f"contrasts_{endpoint}", forest_size(len(rows)), draw, NAMES[endpoint], ""))
    seed = declared.experiment.seeds[0]
    files = {name: folder / f"run/artifacts/samples/{name}/seed_{seed}.npy" for name in declared.variants}
    samples = {
        label(name): np.load(file, allow_pickle=False)[:SAMPLES] for name, file in files.items() if file.exists()
    }
    if samples := {name: images for name, images in samples.items() if len(images)}:
        size = (10.5, 0.75 * len(samples) + 0.4)
        drawn.append(Drawing("samples", size, partial(picture_grid, rows=samples), "Samples", f"Seed {seed}."))
    return drawn


def forest_row(declared: Declared, one: Judgement) -> ForestRow:
    """Row of a forest plot."""
    name = textwrap.shorten(declared.named(one.variant, one.control), LONGEST, placeholder=" …")
    return ForestRow(name, expm1(one.difference), expm1(one.low), expm1(one.high), one.verdict, one.visible)
