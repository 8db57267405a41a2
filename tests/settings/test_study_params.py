"""A study's params.yaml: sections may be left out, combinations may not be impossible."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from unequal.errors import UserError
from unequal.settings.params import read_params

ROOT = Path(__file__).parents[2]
STUDY = yaml.safe_load((ROOT / "studies/time_to_quality/params.yaml").read_text(encoding="utf-8"))

LATENTS = {
    "kind": "trained",
    "latent_channels": 4,
    "block_out_channels": [8, 16],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "kl_weight": 0,
    "images": 10,
    "batch_size": 2,
    "lr": 0.001,
}
PRETRAINED = {"kind": "pretrained", "source": "x", "latent_channels": 4, "factor": 2, "batch_size": 4}
UNCLIPPED = {"sampling.clip": False}

GAUSSIAN = {"kind": "curriculum", "target": "gaussian", "ramp_images": 9, "floor": 0}


def written(folder: Path, edits: dict[str, Any]) -> Path:
    document = json.loads(json.dumps(STUDY))  # without aliases: an edit touches one place
    for dotted, value in edits.items():
        *sections, last = dotted.split(".")
        place = document
        for section in sections:
            place = place[section]
        place[last] = value
    path = folder / "studies" / "mine" / "params.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def test_a_study_holds_what_it_reads_alone(tmp_path: Path) -> None:
    params = read_params(written(tmp_path, {}))
    assert params.groups is None
    assert params.grid is not None


@pytest.mark.parametrize("autoencoder", [LATENTS, PRETRAINED])
def test_a_study_may_work_in_latents(tmp_path: Path, autoencoder: dict[str, Any]) -> None:
    assert read_params(written(tmp_path, UNCLIPPED | {"autoencoder": autoencoder})).autoencoder is not None


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"grid.batches": ["16"]}, "grid: batch '16' must be written as images at once × parts accumulated"),
        ({"grid.batches": ["0x4"]}, "grid: batch '0x4' must be written"),
        ({"grid.seeds": [0, 0]}, "grid: seeds: [0, 0] names one twice"),
        ({"grid.recipes": ["uniform", "none"]}, "recipes: 'none' is missing"),
        ({"grid.batches": ["24001x1"]}, "grid.batches: '24001x1' is a batch of 24001, recipe 'uniform' sees 24000"),
        ({"recipes.uniform.snapshots": [8, 8]}, "recipes.uniform: snapshots: [8, 8] must rise strictly"),
        ({"recipes.uniform.snapshots": [24000]}, "recipes.uniform: snapshots: [24000] must rise strictly and end"),
        ({"time_to_quality.baselines": {"both": "none"}}, "time_to_quality.baselines: 'none' is no recipe of the grid"),
        ({"time_to_quality.baselines": {"both": "both"}}, "time_to_quality.baselines: 'both' and 'both' must be two"),
        ({"grid.lr_scaling": "cubic"}, "grid.lr_scaling: \"cubic\": Input should be 'none', 'sqrt' or 'linear'"),
        ({"recipes.unused": STUDY["recipes"]["uniform"]}, "further_recipes: does not list recipe 'unused'"),
        ({"groups": {"ids": [0, 2], "kind": "snr", "min_ratio": 0.5}}, "groups: ids: [0, 2] must count 0, 1, 2"),
        ({"groups": {"ids": [0], "kind": "excess_loss", "min_ratio": 0.5}}, "groups.kind: 'excess_loss' needs a floor"),
        ({"merging": {"weights": "mean"}}, "merging: needs the section groups, whose experts are merged"),
        # Latents.
        ({"autoencoder": {"kind": "other"}}, "autoencoder: Input tag 'other' found using 'kind' does not match"),
        ({"autoencoder": LATENTS | {"lr": 0}}, "autoencoder.lr: 0: Input should be greater than 0"),
        ({"autoencoder": LATENTS | {"norm_num_groups": 3}}, "autoencoder: block_out_channels: 8 is no multiple"),
        ({"autoencoder": LATENTS}, "sampling.clip: true bounds pixels, and latents have no bounds; allowed"),
        (
            UNCLIPPED | {"autoencoder": LATENTS, "training.horizontal_flips": True},
            "training.horizontal_flips: true would mirror latents, which are not those of the mirrored image",
        ),
        (
            UNCLIPPED | {"autoencoder": LATENTS | {"block_out_channels": [8, 8, 8, 8]}},
            "autoencoder.block_out_channels: halve images 3 times; data.image_size 8 is no multiple of 8 with two",
        ),
        (
            UNCLIPPED | {"autoencoder": PRETRAINED | {"factor": 3}},
            "autoencoder.factor: 3; data.image_size 8 is no multiple of 3 with two latent pixels a side or more",
        ),
        (
            UNCLIPPED | {"autoencoder": PRETRAINED | {"factor": 4}, "network.block_out_channels": [16, 16, 16]},
            "latents 2 pixels wide: data.image_size: 2 cannot be halved 2 times by the network; allowed: multiples",
        ),
        (
            UNCLIPPED
            | {"autoencoder": LATENTS | {"block_out_channels": [8, 8, 8]}, "network.block_out_channels": [16, 16, 16]},
            "latents 2 pixels wide: data.image_size: 2 cannot be halved 2 times by the network; allowed: multiples",
        ),
        (
            UNCLIPPED | {"autoencoder": LATENTS, "network.task": {"kind": "super_resolution", "factor": 2}},
            "network.task: super_resolution; models of latents generate",
        ),
        # Paper 2's settings.
        ({"recipes.curriculum.sampler.ramp_images": 0}, "recipes.curriculum.sampler.ramp_images: 0: Input should be"),
        ({"recipes.curriculum.sampler.ramp_images": 24001}, "recipes.curriculum: sampler.ramp_images: 24001 is longer"),
        ({"recipes.curriculum.sampler.floor": 1.0}, "recipes.curriculum.sampler.floor: 1.0: Input should be"),
        (
            {"recipes.curriculum.sampler": GAUSSIAN | {"mean": 1.0}},
            "recipes.curriculum.sampler.mean: 1.0: Input should be less than 1",
        ),
        ({"recipes.paper2.optimizer.betas": [1.0, 0.9]}, "recipes.paper2.optimizer: betas: [1.0, 0.9] must lie"),
        (
            {"recipes.both.optimizer.momentum_decay.lr_compensation": "raise"},
            "recipes.both.optimizer: momentum_decay.lr_compensation: 'raise' does not fit adamw",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = written(tmp_path, edits)
    with pytest.raises(UserError) as refusal:
        read_params(path)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
