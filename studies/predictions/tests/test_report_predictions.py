"""The study's page, of made-up heads whose answers are known."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from html_tables import uneven_tables
from piloted import write_pilot
from stage_project import write_params

from studies.predictions.findings import COMBINATIONS, Heads, read_heads
from studies.predictions.stages.report_predictions import main
from studies.predictions.tables import combinations_table, swaps_table, winners_table
from studies.predictions.wins import won
from unequal.errors import UserError
from unequal.files import write_json, write_npz

BLOCKS = (0, 1, 2)


def heads(block: int) -> dict[str, Any]:
    """x0 in the place of ε costs a tenth more in the first range, and in every block but for its noise."""
    noise = float(np.exp(0.01 * (block - 1)))
    return {
        "arm": "three",
        "block": block,
        "combinations": {
            name: {"fid": 1.0 + 0.1 * place + 0.01 * block, "loss_over_timesteps": 0.1}
            for place, name in enumerate(COMBINATIONS)
        },
        "swaps": {"ranges": [[0, 3], [4, 9]], "least": 2.0, "fid": [[2.2 * noise, 2.0, 2.0], [2.0, 2.0, 1.0]]},
        "curves": [[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [1.0, 2.0, 2.0]],
        "wins": {
            "shares": [0.5, 0.3, 0.2],
            "kept_lead": 0.8,
            "starts": [0, 4],
            "first": [[0.2, 0.3, 0.5], None],
            "last": [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]],
        },
    }


def found() -> Heads:
    return Heads("three", [heads(block) for block in BLOCKS])


def test_what_was_put_in_comes_out_of_the_tables() -> None:
    assert [row[2] for row in combinations_table([found()]).rows[:2]] == ["1.010 ± 0.010", "1.110 ± 0.010"]
    first, second = swaps_table([found()]).rows
    # The logarithms lie 0.01 apart, so that their standard error is 0.01/√3.
    assert first[:3] == ("three", "0 … 3", "+10.0 % ± 0.58 %")
    assert second[-1] == "−50.0 % ± 0.00 %"
    assert winners_table([found()]).rows == [("three", "50.0 %", "30.0 %", "20.0 %", "80.0 %")]


def test_wins_are_shares_of_what_came(tmp_path: Path) -> None:
    """Two bins of two timesteps, of which the second has seen nothing at first."""
    wins = np.array([[[3, 1, 0], [0, 0, 0]], [[0, 4, 0], [0, 0, 8]]])
    write_npz(tmp_path / "wins.npz", wins=wins, bins=np.array([0, 0, 1, 1]))
    assert won(tmp_path / "wins.npz") == {
        "shares": [3 / 16, 5 / 16, 8 / 16],
        "kept_lead": 0.0,
        "starts": [0, 2],
        "first": [[0.75, 0.25, 0.0], None],
        "last": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    }


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"block": 5}, "tells of 'three' in block 5; measure it again"),
        ({"combinations": {}}, "combination 'profile' is missing; measure the heads again"),
        ({"swaps": {"ranges": [[0, 9]], "least": 1.0, "fid": [[1, 1, 1]]}}, "other ranges than"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    for block in BLOCKS:
        write_json(tmp_path / f"three/block_{block}.json", heads(block) | (changes if block == 1 else {}))
    with pytest.raises(UserError, match=complaint) as refusal:
        read_heads(tmp_path, ["three"], BLOCKS)
    assert "\n" not in str(refusal.value)


def training(arm: str, block: int, value: float) -> dict[str, Any]:
    return {
        "arm": arm,
        "block": block,
        "made_by": arm,
        "endpoints": {"fid": value},
        "scores": {"kid": 0.01},
        "costs": dict.fromkeys(("images", "training_flops", "sampling_flops", "parameters"), 100),
        "curve": {"timesteps": [10], "first": [0, 2, 4], "loss": [value] * 3},
        "conditions": {"data": "images, made up", "extractor": "a classifier"},
    }


@pytest.mark.slow
def test_the_page_has_it_all(project: Path) -> None:
    recipe = {
        "images": 100,
        "sampler": {"density": "uniform"},
        "loss_weight": {"kind": "none"},
        "optimizer": {"lr": 1e-3, "betas": [0.9, 0.999], "weight_decay": 0.0, "warmup_images": 0, "decay": "cosine"},
    }
    alone = ["epsilon", "again", "v_prediction", "sample"]
    predicted = {"again": "epsilon", "three": "mixed"}
    mixing = {"train": "best_common", "select": "profile"}
    write_params(
        subject="made-up images",
        effects={},
        blocks={
            "question": "Do they gain?",
            "seeds": list(BLOCKS),
            "arms": [*alone, "three"],
            "comparisons": [{"arm": arm, "control": "epsilon"} for arm in ("v_prediction", "sample", "three")],
            "repeated": {"arm": "again", "control": "epsilon"},
            "endpoints": {"fid": 0.05},
        },
        recipes={
            arm: recipe | {"prediction": predicted.get(arm, arm)} | ({"mixing": mixing} if arm == "three" else {})
            for arm in (*alone, "three")
        },
        predictions={"single": alone, "mixed": ["three"], "tried": ["three"], "ranges": 2, "samples": 100},
    )
    write_pilot(Path("results"), "loss_over_timesteps", "fid")
    generator = np.random.default_rng(0)
    for block in BLOCKS:
        for arm in (*alone, "three"):
            value = float((1.3 if arm == "three" else 1.0) * np.exp(0.01 * generator.normal()))
            write_json(Path(f"results/endpoints/{arm}/block_{block}.json"), training(arm, block, value))
        write_json(Path(f"results/heads/three/block_{block}.json"), heads(block))
    result = CliRunner().invoke(main, [])
    assert result.exit_code == 0, result.output
    page = Path("results/report.html").read_text()
    assert uneven_tables(page) == []
    assert all(text in page for text in ("Where the quality is lost", "Which head is best", "other combinations"))
    assert "| three against epsilon | +" in Path("results/findings.md").read_text()
    with Path("results/swaps.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(BLOCKS) * 2 * 3
    assert {path.stem for path in Path("results/pictures").glob("*.png")} >= {"errors", "winners", "comparisons"}
