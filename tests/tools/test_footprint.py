"""What memory stages are said to take follows their settings."""

import json
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import yaml
from graph import ROOT

from unequal.tools.footprint import SNAKEMAKE_IN_A_JOB, Footprint, Footprints, weights
from unequal.tools.sections import Uses

PARAMS_FILES = [*ROOT.glob("params.yaml"), *ROOT.glob("presets/*.yaml"), *ROOT.glob("studies/**/params.yaml")]


@pytest.fixture
def footprints(tmp_path: Path):
    """Of a preset with changes by dotted keys."""

    def read(changes: dict[str, object], images: int | None = None, preset: str = "cifar10-ddpm") -> Footprints:
        document = yaml.safe_load((ROOT / f"presets/{preset}.yaml").read_text())
        for dotted, value in changes.items():
            *sections, key = dotted.split(".")
            reduce(getitem, sections, document)[key] = value
        (tmp_path / "params.yaml").write_text(yaml.safe_dump(document))
        return Footprints(Uses.read(tmp_path / "params.yaml"), images)

    return read


@pytest.mark.parametrize("path", PARAMS_FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_params_file_has_footprints(path: Path) -> None:
    found = Footprints(Uses.read(path))
    every = [found.encoded(), *(found.of(program) for program in found.kinds)]
    assert {"train_base", "merge_experts"} <= found.kinds.keys()
    # What a study's own program does is not known; it may do what takes most.
    assert found.of("its_own") == Footprint(max(one.host for one in every), max(one.device for one in every))
    assert found.of("check_params") == Footprint()


def test_a_training_takes_its_weights_six_times_and_a_part_of_its_batch(footprints) -> None:
    whole, halves, fourths = (footprints({"training.gradient_accumulation": parts}) for parts in (1, 2, 4))
    sizes = [one.of("train_base").device for one in (whole, halves, fourths)]
    assert sizes[0] - sizes[1] == pytest.approx(2 * (sizes[1] - sizes[2]))
    # DDPM's network for CIFAR-10 has 35.7 M parameters.
    assert weights(whole.base) == pytest.approx(4 * 35.7e6, rel=0.002)
    assert sizes[2] - (sizes[1] - sizes[2]) == pytest.approx(6 * weights(whole.base))


@pytest.mark.parametrize("place", ["training.average", "recipes.base.average"])
def test_averages_of_two_further_widths_are_held_and_saved(footprints, place: str) -> None:
    plain, kept = (footprints({place: {"kind": "power", "width": 0.1, "keep": n}}) for n in (None, 8))
    more = [
        getattr(kept.of("train_base"), place) - getattr(plain.of("train_base"), place) for place in ("host", "device")
    ]
    assert more == pytest.approx([4 * weights(plain.base), 2 * weights(plain.base)])


def test_gradients_of_clusters_are_held_beside_the_weights(footprints) -> None:
    """Of five clusters: one each, what is left of one of them, and their sum."""
    remedy = {"conflicts": {"kind": "pcgrad", "clusters": 5}}
    plain, apart = (footprints({"recipes.base": recipe}) for recipe in ({}, remedy))
    more = apart.of("train_base").device - plain.of("train_base").device
    assert more == pytest.approx(7 * weights(plain.base))


def test_a_sampled_floor_takes_what_its_sample_takes(footprints) -> None:
    few, sampled = (
        footprints({"training.horizontal_flips": False, "profile.floor": floor}, 50_000).of("profile_floor")
        for floor in (1000, {"sampled": 1000})
    )
    assert sampled.device == pytest.approx(few.device)
    assert sampled.host == pytest.approx(50 * few.host)


def test_a_floor_takes_what_its_images_take(footprints) -> None:
    flipped, unflipped, few = (
        footprints({"training.horizontal_flips": flips, "profile.floor": floor}, 50_000).of("profile_floor").device
        for flips, floor in ((True, "all"), (False, "all"), (False, 10_000))
    )
    assert flipped == pytest.approx(2 * unflipped)
    assert unflipped == pytest.approx(5 * few)
    # 50,000 images of 3,072 values in float32, and twice in float64.
    assert unflipped == pytest.approx(50_000 * 3072 * 20, rel=0.02)
    assert footprints({"profile.floor": "none"}).of("profile_floor") == Footprint()


def test_noise_and_samples_are_not_all_in_memory(footprints) -> None:
    """50,000 images of 256 pixels would be 79 GB in float64, and 10 GB as they are."""
    assert footprints({}, preset="ffhq256-ddpm").of("evaluate_reference").host < 8e9


def test_dinov2_takes_its_weights_and_a_batch(footprints) -> None:
    """Of 22, 304 and 1,137 M parameters; a batch was measured to have 13 values of a token's feature in hand."""
    for features, parameters in ((384, 22e6), (1024, 304e6), (1536, 1137e6)):
        changes = {"extractor.kind": "dinov2", "extractor.weights": "x", "extractor.features": features}
        found = footprints(changes, images=2000)
        needed = 4 * parameters + 4 * 64 * 257 * 13 * features
        assert 0.99 * needed < found.of("evaluate_reference").device < 2 * needed
        for program in ("build_extractor", "evaluate_reference"):
            assert 1.99 * 4 * parameters < found.of(program).host < 9.1e9
    inception = footprints({}, images=2000)
    assert inception.of("build_extractor").host == 0
    assert inception.of("evaluate_reference").device == 2e9


def test_memory_is_asked_for_by_the_command_of_a_stage(footprints) -> None:
    one, command = footprints({"runtime.processes": 1}), "python -m stages.train_base"
    asked = one.megabytes(command, has_gpu=False, on_cluster=False)
    assert asked * 1e6 == pytest.approx(one.of("train_base").host_bytes(has_gpu=False), abs=1e8)
    assert one.megabytes(f"{command} --seed 3", has_gpu=False, on_cluster=False) == asked
    assert one.megabytes("python -m studies.grid.stages.own", has_gpu=False, on_cluster=False) >= asked
    four = footprints({"runtime.processes": 4}).megabytes(command, has_gpu=False, on_cluster=False)
    assert four == pytest.approx(4 * asked, abs=300)
    on_cluster = one.megabytes(command, has_gpu=False, on_cluster=True)
    assert on_cluster - asked == pytest.approx(SNAKEMAKE_IN_A_JOB / 1e6, abs=100)
    # What lies on a GPU is not in host memory.
    assert one.megabytes(command, has_gpu=True, on_cluster=False) < asked / 2


def test_prepared_data_say_how_many_images_there_are(tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_bytes((ROOT / "presets/own-images-32.yaml").read_bytes())
    assumed = Footprints.read(tmp_path)
    (tmp_path / "artifacts/data").mkdir(parents=True)
    facts = tmp_path / "artifacts/data/facts.json"
    whole = {"n": 500, "shape": [3, 32, 32], "range": [0, 255], "source": "folder", "path": None, "labels": None}
    split = {"train": [0, 450], "holdout": [450, 500]}
    facts.write_text(json.dumps(whole)[:-5])
    assert Footprints.read(tmp_path).images == assumed.images
    facts.write_text(json.dumps(whole | {"sha256": "0" * 64, "split": split, "autoencoder": None}))
    assert Footprints.read(tmp_path).images == 500
    assert Footprints.read(tmp_path).of("profile_floor").device < assumed.of("profile_floor").device / 100
