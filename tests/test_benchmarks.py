"""Every benchmark runs in small; ratios, the table and the command are what they say."""

import pytest
import torch
from click.testing import CliRunner
from harness.projects import ROOT

from benchmarks import training
from benchmarks.__main__ import DIGITS, Suite, main
from benchmarks.loops import DocumentedLoop, MinimalLoop
from benchmarks.table import NETWORKS, ROWS, table
from benchmarks.timing import ratio, record
from unequal.runtime.files import read_json

CPU = torch.device("cpu")
SUITE = Suite(CPU, trial=True)
TRIALS = {"cpu": SUITE.cpu, "gpu": SUITE.gpu}
#: One of each kind.
OFTEN = {"training_digits", "pipeline_digits", "scoring", "experts_digits", "data", "shares"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "name"),
    [
        pytest.param(suite, name, marks=[] if suite == "cpu" and name in OFTEN else [pytest.mark.thorough])
        for suite, trials in TRIALS.items()
        for name in trials
        if name != "overhead"  # it needs a finished run
    ],
)
def test_a_benchmark_runs_and_its_figures_have_a_row(suite, name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    record(name, TRIALS[suite][name](), CPU, tmp_path)
    assert f"| {NETWORKS[name] if name in NETWORKS else ROWS[name][0]}" in table("cpu", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("loop", [MinimalLoop, DocumentedLoop])
def test_the_loops_that_ours_is_measured_against_learn(loop, monkeypatch):
    monkeypatch.chdir(ROOT)
    params = SUITE.params(DIGITS)
    torch.manual_seed(0)
    images = training.random_images(params)[:8]
    trained = loop(training.network(params, CPU), images, params.training, CPU)
    if loop is DocumentedLoop:
        trained.schedule.scheduler.lr_lambdas = [lambda step: 1.0]
    losses = []
    for _ in range(90):
        trained.run(1)
        losses.append(trained.loss.item())
    assert sum(losses[-30:]) < 0.9 * sum(losses[:30])


def test_a_ratio_is_the_median_of_rounds_with_quartiles():
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == {"median": 3.0, "low": 2.5, "high": 3.5}
    assert ratio([3.0], [2.0]) == {"median": 1.5, "low": 1.5, "high": 1.5}


def test_figures_are_written_with_their_conditions(tmp_path):
    figures = {"ratio": {"median": 1.234, "low": 1.0, "high": 2.0}, "seconds": {}}
    written = read_json(record("pipeline_digits", figures, CPU, tmp_path))["pipeline_digits"]
    assert written["ratio"] == figures["ratio"]
    assert {"device", "threads", "torch"} <= set(written)


def test_an_unknown_benchmark_is_one_line():
    assert {name for trials in TRIALS.values() for name in trials} == {*NETWORKS, *ROWS}
    refused = CliRunner().invoke(main, ["--only", "nothing"])
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: --only nothing: no such benchmark; allowed: training_digits, ")
