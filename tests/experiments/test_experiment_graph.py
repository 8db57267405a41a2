"""Graphs of experiments: every variant × seed, rates before them, and what an edit of a declaration makes stale."""

from pathlib import Path
from typing import Any

import yaml
from params_files import edited

from unequal.experiments.declaration import Declared
from unequal.experiments.graph import Laid, lay

TINY = Path(__file__).with_name("tiny") / "params.yaml"


def laid(folder: Path, edits: dict[str, Any] | None = None) -> Laid:
    return Laid(Declared.read(edited(TINY, edits or {}, folder)))


def test_all_variants_are_tried_at_equally_many_rates_on_other_seeds(tmp_path):
    found = laid(tmp_path)
    for variant in ("epsilon", "v", "joint", "experts", "three_heads"):
        stages = [name for name in found.stages if name.startswith(f"train_{variant}_")]
        assert stages == [f"train_{variant}_rate_0_10", f"train_{variant}_rate_1_10"] + [
            f"train_{variant}_{seed}" for seed in (0, 1)
        ]
        assert f"artifacts/rates/{variant}.json" in found.stages[f"train_{variant}_0"]["deps"]
    tries = [found.trainings[f"epsilon_rate_{number}"]["recipe"] for number in (0, 1)]
    assert [(one["images"], one["optimizer"]["lr"], one["optimizer"]["warmup_images"]) for one in tries] == [
        (640, 5e-4, 64), (640, 1e-3, 64)
    ]  # fmt: skip
    assert found.plans["joint_rate_0"]["recipe"]["optimizer"]["lr"] == 5e-4
    assert found.trainings["joint_rate_0"]["recipe"]["optimizer"]["lr"] == 1e-3, "the base has its own"
    halves = {name: stage["cmd"].split()[-1] for name, stage in found.stages.items() if name.startswith("measure_")}
    assert {half for name, half in halves.items() if "_rate_" in name} == {"choice"}
    assert {half for name, half in halves.items() if "_rate_" not in name} == {"report"}


def test_variants_of_one_base_share_it(tmp_path):
    found = laid(tmp_path)
    bases = {name for name in found.trainings if name.startswith("base_")}
    assert len(bases) == 2, "the whole one, and that of the tried rates"
    deps = [found.stages[f"train_{name}_1"]["deps"] for name in ("joint", "experts")]
    shared = [{dep for dep in one if "models/base_" in dep} for one in deps]
    assert shared[0] == shared[1] != set()


def laid_with(folder: Path, variant: str, changes: dict[str, Any]) -> Laid:
    document = yaml.safe_load(TINY.read_text())
    own = {key.removeprefix(f"experiment.variants.{variant}."): value for key, value in changes.items()}
    return laid(folder, {f"experiment.variants.{variant}": document["experiment"]["variants"][variant] | own})


def test_a_base_of_other_settings_is_another_base(tmp_path):
    found = laid_with(tmp_path, "experts", {"experiment.variants.experts.recipes.base.images": 2560})
    assert len({name for name in found.trainings if name.startswith("base_")}) == 4


def test_without_rates_there_are_no_tries(tmp_path):
    found = laid(tmp_path, {"experiment.rates": None})
    assert not [name for name in found.stages if "rate" in name]
    assert found.trainings["epsilon"]["chosen"] is False


def test_an_edit_of_one_variant_leaves_the_stages_of_the_others(tmp_path):
    before = laid(tmp_path)
    after = laid(tmp_path, {"experiment.variants.v": {"recipes.base.loss_weight": {"kind": "min_snr", "gamma": 5.0}}})
    assert before.stages == after.stages
    assert {name for name in before.trainings if before.trainings[name] != after.trainings[name]} == {
        "v", "v_rate_0", "v_rate_1"
    }  # fmt: skip


def test_what_is_asked_shapes_no_training(tmp_path):
    before = laid(tmp_path)
    asked = {
        "experiment.contrasts": [["v", "epsilon"]],
        "experiment.endpoints": {"fid": 0.2},
        "experiment.question": "?",
    }
    after = laid(tmp_path, asked | {"experiment.seeds": [0, 1, 2]})
    assert before.trainings == after.trainings
    assert {name: stage for name, stage in after.stages.items() if name in before.stages} == before.stages


def test_paths_are_those_from_the_run(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    data = {"source": "folder", "path": "images", "image_size": 8, "channels": 1, "fit": "resize", "holdout": 0.2}
    run = lay(tmp_path, Declared.read(edited(TINY, {"data": data}, tmp_path)))
    assert yaml.safe_load((run / "params.yaml").read_text())["data"]["path"] == "../images"


def test_equal_files_stay_untouched(tmp_path):
    declared = Declared.read(edited(TINY, {}, tmp_path))
    times = [{file: file.stat().st_mtime_ns for file in lay(tmp_path, declared).iterdir()} for _ in range(2)]
    assert times[0] == times[1]
