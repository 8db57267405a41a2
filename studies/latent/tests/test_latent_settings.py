"""The study's own settings: an autoencoder that makes latents of the images, and nothing that holds of pixels alone."""

from pathlib import Path
from typing import Any

import pytest
from params_files import edited

from studies.latent.params import Params
from unequal.errors import UserError
from unequal.settings.strict import read_yaml

LOW = {"kind": "low_resolution", "super_resolution_factor": 2}
ROOT = Path(__file__).parents[3]
STUDY = ROOT / "studies/latent/params.yaml"
#: Complete params files of the study.
PRESETS = [ROOT / "studies/latent/ffhq256-ldm.yaml"]
PRESETS += [one for one in sorted((ROOT / "presets").glob("*.yaml")) if "autoencoder" in read_yaml(one)]

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


@pytest.mark.parametrize("autoencoder", [LATENTS, PRETRAINED])
def test_an_autoencoder_is_trained_or_fetched(tmp_path: Path, autoencoder: dict[str, Any]) -> None:
    params = Params.read(edited(STUDY, {"autoencoder": autoencoder}, tmp_path))
    assert params.autoencoder.factor == 2
    assert params.seen == (4, 8)


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.stem)
def test_presets_hold_what_the_study_reads(preset: Path) -> None:
    Params.read(preset)
    assert set(read_yaml(preset)) == set(read_yaml(STUDY))


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"autoencoder": {"kind": "other"}}, "autoencoder: Input tag 'other' found using 'kind' does not match"),
        ({"autoencoder": LATENTS | {"lr": 0}}, "autoencoder.lr: 0: Input should be greater than 0"),
        ({"autoencoder": LATENTS | {"norm_num_groups": 3}}, "autoencoder: block_out_channels: 8 is no multiple"),
        ({"sampling.clip": True}, "sampling.clip: true bounds pixels, and latents have no bounds; allowed"),
        (
            {"autoencoder": LATENTS, "training.horizontal_flips": True},
            "training.horizontal_flips: true would mirror latents, which are not those of the mirrored image",
        ),
        (
            {"autoencoder": LATENTS | {"block_out_channels": [8, 8, 8, 8, 8]}},
            "autoencoder.block_out_channels: halve images 4 times; data.image_size 16 is no multiple of 16 with two",
        ),
        (
            {"autoencoder": PRETRAINED | {"factor": 3}},
            "autoencoder.factor: 3; data.image_size 16 is no multiple of 3 with two latent pixels a side or more",
        ),
        (
            {"autoencoder": PRETRAINED | {"factor": 8}, "network.block_out_channels": [16, 16, 16]},
            "latents 2 pixels wide: data.image_size: 2 cannot be halved 2 times by the network; allowed: multiples",
        ),
        (
            {"autoencoder": LATENTS | {"block_out_channels": [8, 8, 8, 8]}, "network.block_out_channels": [16, 16, 16]},
            "latents 2 pixels wide: data.image_size: 2 cannot be halved 2 times by the network; allowed: multiples",
        ),
        (
            {"network.condition": LOW, "profile.floor": "none"},
            "network.condition.kind: low_resolution; models of latents generate",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY, edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert "\n" not in str(refusal.value)
    assert str(refusal.value).startswith(f"{path}: {complaint}")
