"""Every benchmark runs in small; ratios, the table and the command are what they say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from harness.projects import ROOT

from benchmarks import data, profile, sampling, steps, training
from benchmarks.__main__ import main, on_cpu, on_gpu
from benchmarks.table import ROWS, table
from benchmarks.table import growth as growth_of
from benchmarks.timing import in_turns, keep, ratio
from unequal.files import read_json
from unequal.settings.params import Params

CPU = torch.device("cpu")
DIGITS = ROOT / "presets/digits.yaml"


def params() -> Params:
    read = training.comparable(Params.read(DIGITS), CPU, batch_size=4)
    changes = {"profile": {"images": 2, "batch_size": 25}, "schedule": {"timesteps": 30}}
    return read.model_copy(
        update={name: getattr(read, name).model_copy(update=change) for name, change in changes.items()}
    )


def long() -> Params:
    return training.comparable(Params.read(DIGITS), CPU, batch_size=4)


#: Every benchmark in small, and the figure that it is about.
SMALL: dict[str, tuple[Callable[[], Any], str]] = {
    "training": (lambda: training.measure(long(), CPU, 1, 1), "ratio"),
    "passes": (lambda: training.measure_beside_passes(training.transformer(long()), CPU, 1, 1), "time_over_passes"),
    "utilisation": (lambda: training.utilisation(long(), CPU, 1, 1, 64, 1), "utilisation"),
    "pipelines": (lambda: sampling.pipelines(long(), CPU, 3, 2, 1), "ratio"),
    "experts": (lambda: sampling.measure(sampling.untrained(long(), CPU), [500, 20], 2, 2, 1), "experts_pruned"),
    "profile": (lambda: profile.measure(params(), CPU, 1), "share"),
    "data": (lambda: data.measure(long(), CPU, 40, 8, 2, 3, 1), "gathered_per_second"),
    "shares": (lambda: steps.shares(long(), CPU, 2, 1), "shares"),
    "own_loop": (lambda: steps.own_loop(long(), CPU, 1, 1), "share"),
    "gradient_surgery": (lambda: steps.gradient_surgery(long(), CPU, 1, 1), "over_none"),
    "checkpoints": (lambda: steps.checkpoints(long(), CPU, 1, 1), "share"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    measure, figure = SMALL[name]
    assert measure()[figure]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_both_loops_train_the_same_network_on_the_same_images(tmp_path: Path) -> None:
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


def test_turns_go_round_and_the_first_warms_up() -> None:
    turns: list[str] = []
    times = in_turns({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, 2, CPU)
    assert "".join(turns) == "abbaab"
    assert [len(taken) for taken in times.values()] == [2, 2]


def test_a_ratio_is_the_median_of_rounds_with_quartiles() -> None:
    assert ratio([2.0, 9.0, 4.0], [1.0, 3.0, 1.0]) == {"median": 3.0, "low": 2.5, "high": 3.5}
    assert ratio([3.0], [2.0]) == {"median": 1.5, "low": 1.5, "high": 1.5}


def test_figures_are_written_with_their_conditions_and_shown(tmp_path: Path) -> None:
    figures = {"ratio": {"median": 1.234, "low": 1.0, "high": 2.0}}
    written = read_json(keep("pipeline_digits", figures, CPU, tmp_path))["pipeline_digits"]
    assert written["ratio"] == figures["ratio"]
    assert {"device", "threads", "torch"} <= set(written)
    assert table("cpu", tmp_path).splitlines()[2] == f"| {ROWS['pipeline_digits'][0]} | 1.23 (1.00 … 2.00) |"
    assert growth_of({"10": 2.0, "20": 4.0, "40": 9.0}) == "10, 20, 40: 1.00, 2.00, 4.50"


def test_every_benchmark_has_a_row_and_an_unknown_one_is_one_line() -> None:
    assert {*on_cpu(CPU), *on_gpu(torch.device("cuda"))} == set(ROWS)
    refused = CliRunner().invoke(main, ["--only", "nothing"])
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: --only nothing: no such benchmark; allowed: training_digits, ")
