"""Report programs of studies, on made figures of every arm and block of the study's own settings."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from html_tables import uneven_tables
from params_files import edited
from piloted import write_pilot, write_samples

from studies.predictions.measure_heads import COMBINATIONS
from unequal.comparison.params import ComparisonParams
from unequal.report.drawing import log_bins
from unequal.runtime.files import write_json

ROOT = Path(__file__).parents[2]
HEADS = {
    "combinations": {name: {"fid": 1.0, "loss_over_timesteps": 0.1} for name in COMBINATIONS},
    "wins": {"shares": [0.5, 0.3, 0.2], "kept_lead": 0.8, "starts": [0, 400]}
    | {part: [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]] for part in ("first", "last")},
}
RUN = {"range": None, "colour_shift": 1.0, "hue": 2.0}


def write_figures(params):
    comparison, timesteps = params.comparison, params.schedule.timesteps
    first = log_bins(timesteps, 40)[:-1].tolist()
    parts = "images training_flops sampling_flops parameters parameters_per_step training_seconds measuring_seconds"
    costs = dict.fromkeys(parts.split(), 1000)
    generator = np.random.default_rng(0)
    for arm in (*comparison.arms.bases, *comparison.arms.all):
        for block in comparison.seeds:
            level = float(np.exp(0.01 * generator.normal()))
            losses = [0.5 * level] * len(first)
            snapshots = [*params.recipes[arm].snapshots, params.recipes[arm].images] if comparison.speed else []
            path = [
                {"images": images, "curve": losses} | dict.fromkeys(comparison.endpoints, level * 2 - images / 1e6)
                for images in snapshots
            ]
            training = {"arm": arm, "block": block, "scores": {}, "costs": costs, "path": path or None}
            training |= {
                "endpoints": dict.fromkeys(comparison.endpoints, level),
                "conditions": {"data": "made up", "device": "cpu"},
            }
            curve = {"timesteps": [timesteps], "first": first, "loss": losses}
            write_json(Path(f"results/endpoints/{arm}/block_{block}.json"), training | {"curve": curve})
            groups = [(0, 499), (500, 999)] if arm in params.plans else []
            facts = {"stride": 1, "images_seen": 500, "inherited_images_inside": 40}
            write_json(
                Path(f"results/trainings/{arm}/block_{block}.json"),
                {"images": 1000, "groups": [{"first": low, "last": high} | facts for low, high in groups]},
            )
            levels = {"bilinear": 20.0, "mean": 22.0 * level, "unchanged": 19.0 * level}
            runs = [RUN | {"run": kind, "psnr": psnr} for kind, psnr in levels.items()]
            write_json(Path(f"results/ranges/{arm}/block_{block}.json"), {"arm": arm, "block": block, "runs": runs})
            heads = HEADS | {"arm": arm, "block": block, "curves": [losses] * 3}
            write_json(Path(f"results/heads/{arm}/block_{block}.json"), heads)
    write_samples(comparison)
    write_pilot(Path("results"), *comparison.judged)
    Path("results/confirm").mkdir()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "pictures", "rows"),
    [
        # One of them by default: they share the page, and what each adds has tests in the study's own folder.
        pytest.param("boundary.report_borders", set(), "borders", marks=pytest.mark.thorough),
        pytest.param("contribution.report_ranges", set(), "ranges", marks=pytest.mark.thorough),
        pytest.param("curricula.report_ease", {"ease"}, "ease", marks=pytest.mark.thorough),
        ("predictions.report_heads", {"errors", "winners"}, "combinations"),
    ],
)
def test_a_study_s_own_report_runs_on_made_figures(program, pictures, rows, project):
    study, _, name = program.partition(".")
    params = edited(ROOT / f"studies/{study}/params.yaml", {"comparison.confirm": {"seeds": []}}, project)
    write_figures(ComparisonParams.read(params))
    result = CliRunner().invoke(importlib.import_module(f"studies.{study}.{name}").main, [])
    assert result.exit_code == 0, result.output
    assert uneven_tables(Path("results/report.html").read_text(encoding="utf-8")) == []
    assert pictures <= {path.stem for path in Path("results/pictures").iterdir()}
    assert len(Path(f"results/rows/{rows}.csv").read_text().splitlines()) > 1
