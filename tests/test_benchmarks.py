"""Every benchmark runs in small; ratios, the table and the command are what they say."""

import pytest
import torch
from click.testing import CliRunner
from harness.projects import ROOT

from benchmarks import training
from benchmarks.__main__ import Sizes, main, on_cpu, on_gpu
from benchmarks.other_loops import EDMLoop, MinimalLoop
from benchmarks.table import NETWORKS, ROWS, table
from benchmarks.timing import keep, ratio
from unequal.runtime.files import read_json
from unequal.settings.params import Params

CPU = torch.device("cpu")
DIGITS = ROOT / "presets/digits.yaml"


def long() -> Params:
    return training.comparable(Params.read(DIGITS), CPU, batch_size=4)


TRIALS = {"cpu": on_cpu(Sizes(CPU, trial=True)), "gpu": on_gpu(Sizes(CPU, trial=True))}
#: One of each kind: on a CPU's trial both suites and all presets are the same sizes. What starts programs is left out.
OFTEN = {"training_digits", "pipeline_digits", "scoring", "experts_digits", "profile", "data", "shares", "checkpoint"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "name"),
    [
        pytest.param(suite, name, marks=[] if suite == "cpu" and name in OFTEN else [pytest.mark.thorough])
        for suite, trials in TRIALS.items()
        for name in trials
    ],
)
def test_a_benchmark_runs(suite, name, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    before = [*(ROOT / "benchmarks").iterdir()]
    figures = TRIALS[suite][name]()
    keep(name, figures, CPU, tmp_path)
    assert f"| {NETWORKS[name] if name in NETWORKS else ROWS[name][0]}" in table("cpu", tmp_path)
    assert [*(ROOT / "benchmarks").iterdir()] == before


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("loop", [MinimalLoop, EDMLoop])
def test_the_loops_that_ours_is_measured_against_learn(loop):
    params = long()
    torch.manual_seed(0)
    trained = loop(training.network(params, CPU), training.random_images(params)[:1], params.training, CPU)
    before = [one.clone() for one in trained.average]
    losses = []
    for _ in range(90):
        trained.run(1)
        losses.append(trained.loss.item())
    assert sum(losses[-30:]) < sum(losses[:30])
    assert all(not torch.equal(one, other) for one, other in zip(before, trained.average, strict=True))


@pytest.mark.slow
def test_both_loops_train_the_same_network_on_the_same_images(tmp_path):
    ours, theirs = training.our_loop(long(), CPU, tmp_path), training.documented(long(), CPU, encoded=True)
    assert {n: p.shape for n, p in ours.net.named_parameters()} == {
        n: p.shape for n, p in theirs.net.named_parameters()
    }
    torch.testing.assert_close(theirs.loader.dataset[5], ours.source.images[5].float() / 127.5 - 1)
    theirs.schedule.scheduler.lr_lambdas = [lambda step: 1.0]
    theirs.run(1)
    first = theirs.loss
    theirs.run(30)
    assert theirs.loss < first


def test_a_ratio_is_the_median_of_rounds_with_quartiles():
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == {"median": 3.0, "low": 2.5, "high": 3.5}
    assert ratio([3.0], [2.0]) == {"median": 1.5, "low": 1.5, "high": 1.5}


def test_figures_are_written_with_their_conditions_and_shown(tmp_path):
    figures = {"ratio": {"median": 1.234, "low": 1.0, "high": 2.0}}
    written = read_json(keep("pipeline_digits", figures, CPU, tmp_path))["pipeline_digits"]
    assert written["ratio"] == figures["ratio"]
    assert {"device", "threads", "torch"} <= set(written)
    assert table("cpu", tmp_path).splitlines()[2] == f"| {ROWS['pipeline_digits'][0]} | 1.23 (1.00 … 2.00) |"


def test_every_benchmark_has_a_row_and_an_unknown_one_is_one_line():
    assert {name for trials in TRIALS.values() for name in trials} == {*NETWORKS, *ROWS}
    refused = CliRunner().invoke(main, ["--only", "nothing"])
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: --only nothing: no such benchmark; allowed: training_digits, ")
