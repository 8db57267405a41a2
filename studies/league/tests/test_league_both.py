"""Both leagues side by side, of made-up results whose answers are known."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

from studies.league import both
from unequal.files import read_json, write_json

WORDS = {"adaptive": ("better", -0.1), "logit_normal": ("the same", 0.004)}


def league(network: str, *arms: str, sign: int = 1) -> dict[str, Any]:
    """What a network's league has found of arms, with another sign for another network."""
    found = {
        f"{arm} against uniform": {
            "word": (told := WORDS.get(arm, ("undecided", 0.02)))[0],
            "change": sign * told[1],
            "low": sign * told[1] - 0.03,
            "high": sign * told[1] + 0.03,
        }
        for arm in arms
    }
    return {
        "first": f"On pictures, with a {network}.",
        "endpoints": {name: {"delta": 0.1, "comparisons": found} for name in ("fid", "loss_over_timesteps")},
    }


@pytest.fixture
def leagues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two, of which one has an arm more."""
    write_json(tmp_path / "unet/results/findings.json", league("unet", "mode", "adaptive", "logit_normal"))
    write_json(tmp_path / "dit/results/findings.json", league("dit", "logit_normal", "adaptive", sign=-1))
    monkeypatch.setattr(both, "HERE", tmp_path)
    return tmp_path


def test_recipes_that_both_have_stand_side_by_side(leagues: Path) -> None:
    done = CliRunner().invoke(both.main, [])
    assert done.exit_code == 0, done.output
    page = (leagues / "results/both.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("|")]
    assert rows[0] == ["endpoint", "arm against control", "U-Net", "transformer"]
    assert [(row[0], row[1]) for row in rows[2:]] == [
        (name, f"{arm} against uniform")
        for name in ("FID", "held-out loss of ε, over timesteps")
        for arm in ("adaptive", "logit normal")
    ]
    # A change with its interval and its word, of each network by its own league.
    assert rows[2][2:] == ["−10.0 % (−13.0 % … −7.00 %): better", "+10.0 % (+7.00 % … +13.0 %): better"]
    assert rows[3][2].endswith("the same within 10.0 %")
    assert all(f"On pictures, with a {network}." in page for network in ("unet", "dit"))
    assert "mode" not in page
    with Image.open(leagues / "results/both.png") as picture:
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 50


def refused(folder: Path) -> str:
    """Why nothing is shown: one line, and nothing has been written."""
    done = CliRunner().invoke(both.main, [])
    assert done.exit_code == 1
    assert not (folder / "results").exists()
    (line,) = done.output.strip().splitlines()
    return line


@pytest.mark.parametrize(("network", "called"), [("unet", "U-Net"), ("dit", "transformer")])
def test_a_league_that_has_not_been_run_is_named_in_one_line(leagues: Path, network: str, called: str) -> None:
    file = leagues / network / "results/findings.json"
    file.unlink()
    assert refused(leagues) == f"Error: {file}: missing; run the league of the {called} before both are shown"


def test_leagues_without_a_comparison_in_common_or_without_figures_are_refused_in_one_line(leagues: Path) -> None:
    file = leagues / "dit/results/findings.json"
    write_json(file, league("dit", "another"))
    assert refused(leagues).startswith("Error: the leagues have no comparison in common; run both by settings")
    damaged = read_json(file)
    del damaged["endpoints"]["fid"]["delta"]
    write_json(file, damaged)
    assert "endpoints.fid.delta" in refused(leagues)
