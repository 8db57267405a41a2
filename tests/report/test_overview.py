"""The recommended model, and the pictures that show why."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.pipeline.engines import print_recommendation, print_summary
from unequal.pipeline.trials import is_trial, place_below
from unequal.report.memorizing import SHOWN, memorizing_rows, nearest_images
from unequal.report.overview import Recommendation, pareto_front, recommend
from unequal.report.results import RunResults, Variant, data_condition
from unequal.report.statements import Difference
from unequal.report.summary import HEAD, commands, summary
from unequal.runtime.files import write_json

FIDS = {"base": 10.0, "longer": 8.0, "experts_unpruned": 6.0, "slot_3": 1.0}


def results(fids: dict[str, float]) -> RunResults:
    found: Any = object.__new__(RunResults)
    variants = {name: Variant(name, fid, 0.1, 0.0, 0.0, 2, 1, 1, 1, 1, (1,)) for name, fid in fids.items()}
    base = {"extractor": "rotations-0123456789ab"}
    for name, value in {"variants": variants, "base": base}.items():
        object.__setattr__(found, name, value)
    return found


@pytest.mark.parametrize(
    ("ready", "fids", "resolution", "model", "text"),
    [
        (True, FIDS, 0.1, "experts_unpruned", "its FID (rotations) of 6.00 is 25.0 % below that of longer."),
        (
            True,
            FIDS,
            0.5,
            "longer",
            "lower; experts unpruned differs by −25.0 % (−54.5 to +23.7 %, not disti",
        ),
        (
            True,
            FIDS | {"experts_unpruned": 9.0},
            0.01,
            "longer",
            "Take longer (artifacts/models/longer), FID (rotations) 8.00",
        ),
        (False, FIDS, 0.1, "base", "Give the base more images"),
        (True, {"base": 10.0}, 0.1, "base", "Take base (artifacts/models/base), FID (rotations) 10.0"),
    ],
)
def test_a_method_is_recommended_only_if_its_fid_is_distinguishably_lower(
    ready: bool, fids: dict[str, float], resolution: float, model: str, text: str
) -> None:
    differences = {
        name: Difference(float(np.log(fid / fids.get("longer", 10.0))), resolution)
        for name, fid in fids.items()
        if name not in ("longer", "slot_3")
    }
    found = recommend(results(fids), ready, differences)
    assert found.model == model
    assert text in found.text


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8))
def test_the_front_holds_what_no_point_beats_in_both(points: list[tuple[int, int]]) -> None:
    costs, fids = zip(*points, strict=True)
    front = {points[i] for i in pareto_front(costs, fids)}
    beaten = {one for one in points if any(a <= one[0] and b <= one[1] and (a, b) != one for a, b in points)}
    assert front == set(points) - beaten


def test_the_nearest_image_of_a_copy_is_its_original() -> None:
    data = np.random.default_rng(0).integers(0, 256, (50, 3, 4, 4), dtype=np.uint8)
    near = np.clip(data[[7, 40]].astype(int) + 2, 0, 255).astype(np.uint8)
    images, distances = nearest_images(near, data)
    assert np.array_equal(images, data[[7, 40]])
    assert distances == pytest.approx(np.sqrt(np.square(near.astype(float) - data[[7, 40]]).mean((1, 2, 3))), rel=1e-3)


def test_held_out_images_that_are_shown_differ_from_each_other() -> None:
    """40 of 64 images are copies of the first one."""
    random = np.random.default_rng(0)
    data, held_out = (random.integers(0, 256, (64, 1, 4, 4), dtype=np.uint8) for _ in range(2))
    held_out[1:41] = held_out[0]
    shown = memorizing_rows(data[:20], data, held_out)[0]["held-out images"]
    assert len(shown) == SHOWN
    assert len(np.unique(shown, axis=0)) == SHOWN


def test_copies_among_held_out_images_are_no_training_images() -> None:
    facts = {"source": "folder", "split": {"train": [0, 1701], "holdout": [1701, 1890]}, "shape": [3, 16, 16]}
    plain = "folder, 1701 training and 189 held-out images of 16×16×3 values"
    assert data_condition(facts | {"copies": {"train": 40, "holdout": 0}}) == plain
    repeated = f"{plain}; 10 held-out ones repeat another held-out one, none a training image"
    assert data_condition(facts | {"copies": {"train": 40, "holdout": 10}}) == repeated


def test_a_summary_says_what_to_take_and_what_to_do_next() -> None:
    found: Any = results(FIDS)
    object.__setattr__(found, "references", {"real_against_real": {"fid": 0.1346}})
    object.__setattr__(found, "trainings", {name: SimpleNamespace(seconds=90.0) for name in ("base", "longer")})
    lines = list(summary(found, Recommendation("experts_unpruned", "Take experts unpruned."), wall=7200.0))
    assert lines[1:3] == [
        "  Take experts unpruned.",
        "  FID (rotations): 6.00 ± 0.10; control (longer) 8.00 ± 0.10; real images 0.135",
    ]
    assert lines[4] == "  time:   3 min of training; this command took 2 h"
    assert [line.split()[-1] for line in lines[5:]] == ["results/report.html", "--grid", "my-experts-unpruned"]


def test_commands_enter_the_folder_of_a_run_below_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tries/my flowers").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "tries/my flowers")
    place = place_below()
    assert is_trial(place)
    assert commands("base", place)[0] == "cd 'tries/my flowers'"
    monkeypatch.chdir(tmp_path)
    assert not is_trial(place_below())
    assert commands("base", place_below()) == [
        "unequal sample base --count 64 --grid",
        "unequal export base my-base",
    ]


def test_snakemake_prints_the_summary_of_a_report_that_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "report.log"
    print_summary(log, since=0.0)
    log.write_text(f"a warning\n{HEAD}\n  Take base.\n")
    print_summary(log, since=log.stat().st_mtime + 1)
    assert capsys.readouterr().out == ""
    print_summary(log, since=0.0)
    assert capsys.readouterr().out == f"\n{HEAD}\n  Take base.\n"


def test_a_run_with_nothing_left_to_do_names_the_model_to_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = tmp_path / "scores.json"
    print_recommendation(scores)
    assert capsys.readouterr().err == ""
    write_json(scores, {"fid": {"base": 3.0, "longer": 1.2345}, "take": "longer"})
    print_recommendation(scores)
    said = capsys.readouterr().err
    assert said.startswith("Nothing is left to do. The model to take is longer, FID 1.23: ")
    assert said.endswith("/report.html; unequal sample longer --count 64 --grid\n")
