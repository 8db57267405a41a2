"""The comparison's page, with what ranges of timesteps contribute to enlarged images."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from unequal.comparison.report import Extras, Judged, ReportSettings, write_report
from unequal.comparison.results import file_of
from unequal.pipeline.stage import Run, stage
from unequal.report.formatting import label, mean_and_sd, sd
from unequal.report.page import Table
from unequal.runtime.files import read_json

QUALITIES = {"psnr": "PSNR in dB", "colour_shift": "colour shift", "hue": "hue deviation in degrees"}
#: Decibels of a mean of samples above bilinear enlargement without which a model's errors say nothing about timesteps.
HEADROOM = 1.0
RUNS = {
    "bilinear": "bilinear enlargement",
    "mean": "mean of several samples",
    "unchanged": "one sample",
    "oracle": "true x0 in {}",
    "error": "error injected in {}",
}


def read_ranges(folder: Path, arms: Sequence[str], blocks: Sequence[int]) -> dict[str, list[list[dict[str, Any]]]]:
    """Arm → runs of each block. Raises UserError where a file is missing."""
    return {arm: [read_json(folder / file_of(arm, block))["runs"] for block in blocks] for arm in arms}


def ranges_table(found: dict[str, list[list[dict[str, Any]]]]) -> Table:
    """A row a run of each arm: means over blocks ± standard deviation, and the change of PSNR."""
    columns = ("model", "run", *QUALITIES.values(), "change of PSNR")
    rows = [
        (label(arm), RUNS[run["run"]].format(run["range"]), *(mean_and_sd(values) for values in figures.values()))
        for arm, run, figures in by_run(found)
    ]
    note = (
        f"Held-out images; all steps, with noise. {verdict(found)} An oracle mends the model's own errors, which are "
        "larger near the noise; the injected error has one size everywhere. The last step is never changed. Colour "
        "shift is in values of 0 to 255."
    )
    return Table("Contribution of ranges of timesteps", columns, rows, note)


def by_run(
    found: dict[str, list[list[dict[str, Any]]]],
) -> Iterator[tuple[str, dict[str, Any], dict[str, list[float]]]]:
    """Yield arm, run, and figure → values of all blocks, the change of PSNR from the unchanged run among them."""
    for arm, blocks in found.items():
        plain = [psnr_of(runs, "unchanged") for runs in blocks]
        for number, run in enumerate(blocks[0]):
            same = [runs[number] for runs in blocks]
            change = [one["psnr"] - before for one, before in zip(same, plain, strict=True)]
            yield arm, run, {name: [one[name] for one in same] for name in QUALITIES} | {"change": change}


def means(found: dict[str, list[list[dict[str, Any]]]]) -> list[dict[str, Any]]:
    """A row a run of each arm: mean and standard deviation over blocks of each figure."""
    return [
        {"arm": arm, "run": run["run"], "range": run["range"]}
        | {name: fmean(values) for name, values in figures.items()}
        | {f"{name}_sd": sd(values) for name, values in figures.items()}
        for arm, run, figures in by_run(found)
    ]


def psnr_of(runs: list[dict[str, Any]], kind: str) -> float:
    """PSNR of the first run of a kind."""
    return float(next(run["psnr"] for run in runs if run["run"] == kind))


def verdict(found: dict[str, list[list[dict[str, Any]]]]) -> str:
    """State which models are good enough for the question."""
    lead = {
        arm: min(psnr_of(runs, "mean") - psnr_of(runs, "bilinear") for runs in blocks) for arm, blocks in found.items()
    }
    able = [label(arm) for arm, decibels in lead.items() if decibels >= HEADROOM]
    if not able:
        return f"No model's mean is {HEADROOM:g} dB above bilinear enlargement: these figures answer nothing."
    return (
        f"Means at least {HEADROOM:g} dB above bilinear enlargement in every block: {', '.join(able)}; others answer "
        "nothing."
    )


@stage(ReportSettings)
def main(run: Run, settings: ReportSettings) -> None:
    """Write the page."""
    folder = run.input("results/ranges")

    def own(judged: Judged) -> Extras:
        found = read_ranges(folder, settings.comparison.arms.fresh, judged.results.plan.seeds)
        rows = [
            {"arm": arm, "block": block, **one}
            for arm, blocks in found.items()
            for block, runs in zip(judged.results.plan.seeds, blocks, strict=True)
            for one in runs
        ]
        return Extras([ranges_table(found)], rows={"ranges": rows, "ranges_means": means(found)})

    write_report(run, settings, own)
