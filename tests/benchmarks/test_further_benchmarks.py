"""Benchmarks of data, shares of a step, utilisation and pipelines: what is timed is what is said."""

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import benchmarks.__main__ as command
from benchmarks import busy, data, first_run, growth, overhead, pipelines, remedies, shares, utilisation
from benchmarks.__main__ import main, on_cpu, on_gpu
from benchmarks.table import ROWS, table
from benchmarks.timing import keep
from benchmarks.training import comparable, our_loop
from unequal.files import read_json
from unequal.models.backbones.registry import build_network
from unequal.models.flops import count_cost
from unequal.settings.params.pipeline import Params
from unequal.tools.architecture import spec_of
from unequal.training.batches import BatchSource

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def params() -> Params:
    return comparable(Params.read(ROOT / "presets/digits.yaml"), CPU, batch_size=4)


def test_every_way_to_read_gives_whole_batches_of_the_file(params: Params, tmp_path: Path) -> None:
    path = tmp_path / "images.npy"
    data.generate(path, 30, 16)
    images = np.load(path)
    assert images.shape == (30, 3, 16, 16)
    for way in data.WAYS:
        gathered, noise, _ = data.source_of(path, way, params, CPU).gathered(0, slice(None))
        assert gathered.shape == noise.shape == (4, 3, 16, 16)
        assert all((images == one.numpy()).all((1, 2, 3)).any() for one in gathered)
    data.forget(path)
    np.testing.assert_array_equal(np.load(path), images)


def test_waiting_is_a_part_of_the_step(params: Params) -> None:
    found = data.measure(params, CPU, images=40, size=8, steps=2, batches=3, rounds=1)
    assert list(found["seconds"]) == list(data.WAYS)
    for one in found["seconds"].values():
        assert 0 < one["wait"] < one["step"]
        assert one["share"] == pytest.approx(one["wait"] / one["step"])
    assert all(speed > 0 for speed in found["gathered_per_second"].values())


def test_shares_are_of_whole_steps(params: Params) -> None:
    draw = BatchSource.draw
    logged = params.model_copy(update={"training": params.training.model_copy(update={"log_every": 3})})
    found = shares.measure(logged, CPU, steps=3, rounds=1)
    assert set(found["shares"]) == set(shares.PARTS)
    assert 0 < sum(found["shares"].values()) < 1
    assert BatchSource.draw is draw


def test_every_part_of_a_step_is_found(params: Params, tmp_path: Path) -> None:
    trainer = our_loop(params, CPU, tmp_path)
    with shares.watched(trainer.averages, "update", CPU) as taken:
        trainer.advance()
        trainer.advance()
    assert len(taken) == trainer.averages.main.updates == 2


def test_utilisation_is_the_rate_of_training_over_that_of_products(params: Params) -> None:
    found = utilisation.measure(params, CPU, steps=1, rounds=1, side=64, products=1)
    training, matmul = (found["flops_per_second"][name][0] for name in ("training", "matmul"))
    assert found["utilisation"]["median"] == pytest.approx(training / matmul)
    net = build_network(params.network, spec_of(params))
    assert found["flops_per_step"] == 2 * 3 * 4 * count_cost(net).macs_with_attention


def test_every_remedy_is_timed_against_none_and_steps_otherwise(params: Params, tmp_path: Path) -> None:
    found = remedies.measure(params, CPU, steps=1, rounds=1)
    for name, over in found["over_none"].items():
        assert over["median"] == pytest.approx(found["seconds"][name][0] / found["seconds"]["none"][0])
    ends = []
    for name, recipe in remedies.recipes(params).items():
        torch.manual_seed(0)
        trainer = our_loop(params, CPU, tmp_path / name, recipe=recipe)
        trainer.advance()
        trainer.advance()
        ends.append(torch.cat([one.detach().flatten() for one in trainer.net.parameters()]))
    assert all(not torch.equal(one, other) for one, other in itertools.combinations(ends, 2))


@pytest.mark.gpu
def test_a_gpu_trains_compiled_and_in_bf16() -> None:
    iddpm = Params.read(ROOT / "presets/cifar10-iddpm.yaml")
    device = torch.device("cuda")
    found = utilisation.measure(comparable(iddpm, device, 16), device, steps=1, rounds=1, side=1024, products=5)
    assert found["precision"] == "bf16"
    assert found["compiled"]
    assert 0 < found["utilisation"]["median"] < 1


def test_both_pipelines_ask_the_network_as_often(params: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    build = pipelines.build_network

    def watched(*settings: object) -> torch.nn.Module:
        net = build(*settings)  # type: ignore[arg-type]
        net.register_forward_pre_hook(lambda _, given: asked.append(len(given[0])))
        return net

    monkeypatch.setattr(pipelines, "build_network", watched)
    found = pipelines.measure(params, CPU, steps=3, images=2, rounds=1)
    # Once to count the cost of an image, then two rounds of both.
    assert asked[-12:] == [2] * 12
    assert found["ratio"]["median"] == found["seconds"]["diffusers"][0] / found["seconds"]["ours"][0]


def test_what_grows_grows(params: Params, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[int] = []
    build = growth.build_network

    def watched(*settings: object) -> torch.nn.Module:
        net = build(*settings)  # type: ignore[arg-type]
        net.register_forward_pre_hook(lambda _, given: asked.append(len(given[0])))
        return net

    monkeypatch.setattr(growth, "build_network", watched)
    calls = {}
    for name, work in growth.of_steps(params, CPU).items():
        asked.clear()
        work()
        calls[name] = len(asked)
    assert calls == {"10": 10, "20": 20, "40": 40}
    asked.clear()
    growth.of_timesteps(params, CPU)["100"]()
    assert sum(asked) == 4 * 100
    assert list(growth.of_image_size(params, CPU, tmp_path)) == ["8", "16", "32"]


def test_a_copy_of_the_project_holds_its_graph(tmp_path: Path) -> None:
    folder = overhead.copied(tmp_path / "copy")
    for name in ("dvc.yaml", "Snakefile", "stages/train_base.py", "unequal/workspace.py"):
        assert (folder / name).read_bytes() == (ROOT / name).read_bytes()


def test_figures_are_kept_with_their_conditions_and_told(tmp_path: Path) -> None:
    figures = {"ratio": {"median": 1.234, "low": 1.0, "high": 2.0}}
    path = keep("pipeline_digits", figures, CPU, tmp_path)
    kept = read_json(path)
    assert kept["ratio"] == figures["ratio"]
    assert {"device", "threads", "torch"} <= set(kept)
    lines = table("cpu", tmp_path).splitlines()
    assert len(lines) == 3
    assert lines[2] == f"| {ROWS['pipeline_digits'][0]} | 1.23 (1.00 … 2.00) |"
    assert len(table("cuda", tmp_path).splitlines()) == 2


def test_every_benchmark_of_the_one_command_has_a_row() -> None:
    assert {*on_cpu(CPU), *on_gpu(torch.device("cuda"))} == set(ROWS)


def test_growth_is_told_of_the_first_size() -> None:
    seconds = {"steps": {"10": 2.0, "20": 4.0, "40": 9.0}, "processes": {"1": 3.0, "2": 1.5}}
    assert ROWS["growth"][1]({"seconds": seconds}) == "steps 10, 20, 40: 1.00, 2.00, 4.50; processes 1, 2: 1.00, 0.50"


def test_on_a_gpu_one_command_measures_all_and_runs_the_larger_pipelines(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(command, "keep", lambda name, figures, device: done.append(f"{name} on {device}"))
    monkeypatch.setattr(command, "on_gpu", lambda device: {"profile": dict, "shares": dict})
    monkeypatch.setattr(command.larger, "reproduce_all", lambda: done.append("larger"))
    assert CliRunner().invoke(main, ["--gpu"]).exit_code == 0
    assert done == ["profile on cuda", "shares on cuda", "larger"]
    done.clear()
    assert CliRunner().invoke(main, ["--gpu", "--only", "shares"]).exit_code == 0
    assert done == ["shares on cuda"]


def test_what_cannot_be_run_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert CliRunner().invoke(main, ["--gpu"]).output == "Error: --gpu: PyTorch finds no CUDA device\n"
    refused = CliRunner().invoke(main, ["--only", "nothing"])
    assert refused.exit_code == 1
    assert refused.output.startswith("Error: --only nothing: no such benchmark; allowed: training_digits, ")


def test_a_first_run_is_shared_out() -> None:
    processes = [
        {"begun": 10.0, "started": 13.0, "ended": 20.0, "gone": 21.0},
        {"begun": 18.0, "started": 20.0, "ended": 24.0, "gone": 25.0},
        {"begun": 27.0, "started": 28.0, "ended": 30.0, "gone": 30.5},
    ]
    found = first_run.shared_out(set_up=4.0, whole=20.0, processes=processes)
    assert found == {
        "set-up": 4.0, "engine": 1.5, "stages' starts": 5.0, "stages' work": 11.5, "stages' ends": 2.0, "all": 24.0
    }  # fmt: skip


def test_a_way_of_training_beside_a_busy_core_is_held_against_the_same_without(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[int, int]] = []
    monkeypatch.setattr(busy, "CORES", 2)
    monkeypatch.setattr(busy, "trainings", lambda command, threads, at_once: commands.append((threads, at_once)))
    found = busy.measure(ROOT / "params.yaml", steps=1, rounds=2)
    assert sorted(commands) == [(1, 2)] * 4 + [(2, 1)] * 4
    assert {*found["busy_over_idle"]} == {busy.ONE_BY_ONE, busy.SIDE_BY_SIDE}
    assert all(len(times) == 2 for times in found["seconds"].values())


def test_trainings_share_out_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "CORES", 2)
    note = "import os, sys; open(sys.argv[1], 'a').write(os.environ['OMP_NUM_THREADS'])"
    busy.trainings([sys.executable, "-c", note, str(tmp_path / "noted")], threads=2, at_once=1)
    assert (tmp_path / "noted").read_text() == "22"
    with pytest.raises(RuntimeError, match="has failed"):
        busy.trainings([sys.executable, "-c", "raise SystemExit(1)"], threads=1, at_once=2)
