"""The share of checkpoints is that of the settings, from steps and checkpoints that have been carried out."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from benchmarks import checkpoint as benchmark
from benchmarks.checkpoint import main, measure
from unequal.files import read_json
from unequal.tools.params import read_params
from unequal.training.loop import Trainer

ROOT = Path(__file__).parents[2]


def test_the_share_is_that_of_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done: list[int] = []
    save = Trainer.save
    monkeypatch.setattr(Trainer, "save", lambda trainer: done.append(trainer.step) or save(trainer))
    took = iter([10.0, 0.5, 30.0, 0.1, 20.0, 0.3])

    def told(work, device: torch.device) -> float:
        work()
        return next(took)

    monkeypatch.setattr(benchmark, "seconds", told)
    params = read_params(ROOT / "params.yaml")
    quick = params.model_copy(update={"training": params.training.model_copy(update={"batch_size": 2})})
    result = measure(quick, "base", torch.device("cpu"), steps=2, rounds=3)
    assert done == [2, 4, 6, 8]
    assert (result["step_seconds"], result["checkpoint_seconds"]) == (10.0, 0.3)
    assert result["share"] == pytest.approx(0.3 / (params.training.checkpoint_every * 10 + 0.3))
    # Weights, their average and AdamW's two moments, four bytes each.
    assert 16 * 163_000 < result["checkpoint_bytes"] < 16 * 170_000
    assert list(tmp_path.iterdir()) == []


def test_the_result_is_written_where_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--steps", "1", "--rounds", "1", "--output", "share.json"]
    result = CliRunner().invoke(main, [str(ROOT / "params.yaml"), *options])
    assert result.exit_code == 0, result.output
    assert 0 < read_json(tmp_path / "share.json")["share"] < 1
