"""The model to take, and the pictures that show why."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unequal.pipeline.engines import print_recommendation, print_summary
from unequal.pipeline.trials import is_trial, place_below
from unequal.report.figures import References, Score, TrainingCurve
from unequal.report.front import HEAD, commands, pareto_front, summary, taken
from unequal.report.memorizing import SHOWN, memorizing_rows, nearest_images
from unequal.report.results import RunResults, data_condition
from unequal.runtime.files import write_json
from unequal.settings.strict import validate

END = {"kid": 0.1, "fid_half": 2.0, "precision": 0.5, "recall": 0.5}
SCORE: dict[str, Any] = {
    "kid_mean": 0.01, "kid_sd": 0.001, "fid_half_mean": 9.0, "precision_mean": 0.9, "precision_sd": 0.01,
    "recall_mean": 0.8, "recall_sd": 0.01, "images_seen": 100, "training_flops": 1000, "sampling_flops_per_image": 9,
    "parameters": 10, "parameters_per_step": 10, "samples_per_seed": 64, "sampling_seeds": [0, 1], "features": 4,
    "sampling_steps_per_expert": [3], "extractor": "rotations-0123456789ab", "reference": "training images",
    "singular_covariance": False, "training_seed": 0, "device": "cpu", "fp32": "ieee",
    "sampling": {"steps": 3, "spacing": "uniform", "eta": 0.0, "clip": True},
}  # fmt: skip


def results(noise: float = 900.0, **fids: list[float]) -> RunResults:
    """Variants with these FIDs at each sampling seed; all else is the same."""
    found: Any = object.__new__(RunResults)
    scores = {}
    for name, values in fids.items():
        own = {"fid_mean": float(np.mean(values)), "fid_sd": 0.1, "sampling_seeds": list(range(len(values)))}
        scores[name] = validate(Score, SCORE | own | {"scores": [{"fid": value} for value in values]}, Path(name))
    ends = {"real_against_real": END | {"fid": 1.0}, "noise_against_real": END | {"fid": noise}}
    curve = TrainingCurve(np.array([100.0]), np.array([0.5]), np.array([90.0]))
    fields: dict[str, Any] = {"scores": scores, "groups": None, "trainings": dict.fromkeys(fids, curve)}
    fields["references"] = validate(References, ends | {"real_sets": "half against half"}, Path("reference"))
    for name, value in fields.items():
        object.__setattr__(found, name, value)
    return found


@pytest.mark.parametrize(
    ("found", "model", "said"),
    [
        (
            results(base=[10.0, 10.1], longer=[8.0, 8.08], own=[6.0, 6.06]),
            "own",
            "6.03 ± 0.10 (−25.0 % (−25.0 to −25.0)",
        ),
        (results(base=[10.0, 9.0], longer=[8.0, 9.0], own=[6.0, 9.0]), "longer", "(own against it: −13.4 % (−"),
        (results(base=[10.0, 10.1], longer=[8.0, 8.08]), "longer", "8.04 ± 0.10; 1.00 k training FLOPs, 1.5 min of"),
        (results(base=[10.0]), "base", "Take base (artifacts/models/base): FID (rotations) 10.0; 1.00 k"),
        (results(base=[10.0], longer=[8.0]), "longer", "FID (rotations) 8.00;"),
        (results(base=[10.0], longer=[8.0], own=[6.0]), "longer", "8.00 (own against it: −25.0 %);"),
        (results(noise=80.0, base=[10.0, 10.0], longer=[2.0, 2.0]), "base", "Train base longer: its FID"),
        (results(base=[0.0, 0.0], longer=[0.0, 0.0]), "longer", "FID (rotations) 0.0 ± 0.1;"),
    ],
)
def test_the_model_to_take_is_the_control_unless_another_is_lower_beyond_the_interval(
    found: RunResults, model: str, said: str
) -> None:
    take = taken(found)
    assert said in take.text
    assert take.model == model


def test_differences_of_fid_are_those_of_logarithms_by_students_t() -> None:
    # Both are twice as high at the second seed: nothing scatters.
    (found,) = results(base=[8.0, 16.0], longer=[4.0, 8.0]).differences().values()
    assert found == pytest.approx((1.0, 1.0, 1.0))
    # Differences 0 and −0.2: their mean's error is 0.1, with one degree of freedom; t = 12.706.
    (found,) = results(longer=[1.0, math.exp(0.2)], base=[1.0, 1.0]).differences().values()
    assert np.log1p(found) == pytest.approx([-0.1, -0.1 - 1.2706, -0.1 + 1.2706], rel=1e-3)


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
    assert memorizing_rows(data[:4], data, near)[1] == 0
    assert memorizing_rows(data[:4], data, near[:0])[1] is None


def test_held_out_images_that_are_shown_differ_from_each_other() -> None:
    """40 of 64 images are copies of the first one."""
    random = np.random.default_rng(0)
    data, held_out = (random.integers(0, 256, (64, 1, 4, 4), dtype=np.uint8) for _ in range(2))
    held_out[1:41] = held_out[0]
    shown = memorizing_rows(data, data, held_out)[0]["held-out images"]
    assert len(shown) == SHOWN
    assert len(np.unique(shown, axis=0)) == SHOWN


def test_copies_among_held_out_images_are_named() -> None:
    facts = {"source": "folder", "split": {"train": [0, 1701], "holdout": [1701, 1890]}, "shape": [3, 16, 16]}
    plain = "folder, 1701 training and 189 held-out images of 16×16×3 values"
    assert data_condition(facts | {"copies": {"train": 40, "holdout": 0}}) == plain
    assert data_condition(facts | {"copies": {"train": 40, "holdout": 10}}).startswith(f"{plain}; 10 held-out")


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
    lines = list(summary("Take base.", ["unequal sample base"], Path()))
    assert lines[0] == HEAD
    assert lines[-2].endswith("open results/report.html")
    print_summary(log, since=0.0)
    log.write_text("\n".join(["a warning", *lines, ""]))
    print_summary(log, since=log.stat().st_mtime + 1)
    assert capsys.readouterr().out == ""
    print_summary(log, since=0.0)
    assert capsys.readouterr().out.split("\n")[1:3] == [HEAD, "  Take base."]


def test_a_run_with_nothing_left_to_do_names_the_model_to_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take = tmp_path / "take.json"
    print_recommendation(take)
    assert capsys.readouterr().err == ""
    write_json(take, {"model": "longer", "fid": 1.2345})
    print_recommendation(take)
    said = capsys.readouterr().err
    assert "longer, FID 1.23: " in said
    assert said.endswith("/report.html; unequal sample longer --count 64 --grid\n")
