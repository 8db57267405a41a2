"""Settings of studies with a reader of their own: sound as they stand; what is impossible is refused in one line."""

from pathlib import Path
from typing import Any

import pytest
from graph import FOLDERS, model_of
from one_line import refusal, unnumbered
from params_files import edited

from studies.consistency.params import Params as Consistency
from studies.few_steps.params import Params as FewSteps
from studies.latent.params import Params as Latent
from unequal.settings.strict import read_yaml

ROOT = Path(__file__).parents[2]
READERS: dict[str, Any] = {"consistency": Consistency, "few_steps": FewSteps, "latent": Latent}
TRAINED = read_yaml(ROOT / "studies/latent/params.yaml")["autoencoder"] | {"kind": "trained"}
FETCHED = {"kind": "pretrained", "source": "x", "latent_channels": 4, "factor": 2, "batch_size": 4, "precision": "auto"}
THREE_LEVELS = {"network.block_out_channels": [16, 16, 16]}
TWO_PIXELS = "latents 2 pixels wide: data.image_size: 2 cannot be halved 2 times by the network; allowed: multiples"
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "consistency": [
        ({"consistency.seeds": [1, 1]}, "consistency.seeds: [1, 1] names one twice"),
        ({"consistency.widths": ["16x32"]}, 'consistency.widths.0: "16x32": no network; allowed: channels of each'),
        ({"consistency.widths": ["dit-90-2"]}, "consistency.widths: width 'dit-90-2': width: 90 is no multiple of 4"),
        ({"consistency.widths": ["16-30"]}, "consistency.widths: width '16-30': block_out_channels: 30 is no multiple"),
        ({"consistency.widths": ["8-12"]}, "consistency.widths: network.attention_head_dim: 8 does not divide the 12"),
        ({"consistency.widths": ["8-8-8-8-8"]}, "consistency.widths: data.image_size: 8 cannot be halved 4 times by"),
        ({"consistency.comparison.timesteps": [5, 5]}, "consistency.comparison.timesteps: [5, 5] must rise strictly"),
        ({"consistency.comparison.timesteps": [5, 1000]}, "consistency.comparison.timesteps: 1000 reaches beyond the"),
        ({"sampling.eta": 0.5}, "sampling.eta: 0.5; consistency compares pictures of one noise, and needs 0"),
        ({"network.condition": {"kind": "labels", "classes": 10}}, "network.condition.kind: labels; replicas make"),
        ({"network.pretrained": "a/b"}, "network.pretrained: 'a/b'; replicas start from fresh weights: null"),
    ],
    "few_steps": [
        ({"calls": [7, 8]}, "calls: 8; Heun's N steps take 2N − 1; allowed: odd numbers from 3"),
        ({"calls": [7, 1001]}, "calls: 1001; at most schedule.timesteps: 1000"),
        ({"calls": [7, 7]}, "calls: [7, 7] names one twice"),
        (
            {"comparison.arms.fresh": ["ddim_uniform", "ddim_uniform_again", "euler_edm"]},
            "comparison.arms: 'euler_edm'; allowed: a solver and a spacing, as in ddim_edm",
        ),
        ({"sampling.eta": 1.0}, "sampling.eta: 1; solvers of higher order add no noise; allowed: 0.0"),
        ({"network.pretrained": "somewhere"}, "network.pretrained: 'somewhere'; blocks begin with fresh weights: null"),
    ],
    "latent": [
        ({"autoencoder": TRAINED | {"norm_num_groups": 3}}, "autoencoder.block_out_channels: 16 is no multiple"),
        ({"sampling.clip": True}, "sampling.clip: true bounds pixels, and latents have no bounds; allowed"),
        ({"training.horizontal_flips": True}, "training.horizontal_flips: true would mirror latents, which are not"),
        ({"autoencoder": TRAINED | {"block_out_channels": [8, 8, 8, 8, 8]}}, "autoencoder.block_out_channels: halve"),
        ({"autoencoder": FETCHED | {"factor": 3}}, "autoencoder.factor: 3; data.image_size 16 is no multiple of 3"),
        ({"autoencoder": FETCHED | {"factor": 8}} | THREE_LEVELS, TWO_PIXELS),
        ({"autoencoder": TRAINED | {"block_out_channels": [8, 8, 8, 8]}} | THREE_LEVELS, TWO_PIXELS),
        (
            {"network.condition": {"kind": "low_resolution", "super_resolution_factor": 2}, "profile.floor": "none"},
            "network.condition.kind: low_resolution; models of latents generate",
        ),
    ],
}
ROWS = [
    pytest.param(study, *row, id=f"{study}-{next(iter(row[0]))}") for study, rows in REFUSED.items() for row in rows
]


@pytest.mark.parametrize(("study", "edits", "complaint"), ROWS)
def test_impossible_settings_are_refused_in_one_line(study, edits, complaint, tmp_path):
    path = edited(ROOT / f"studies/{study}/params.yaml", edits, tmp_path)
    assert unnumbered(refusal(READERS[study].read, path), path).startswith(complaint)


@pytest.mark.parametrize("folder", [one for one in FOLDERS if one.parts[:1] == ("studies",)], ids=str)
def test_settings_of_every_study_are_sound(folder):
    model_of(folder).read(ROOT / folder / "params.yaml")


LATENTS = [one for one in sorted((ROOT / "presets").glob("*.yaml")) if "autoencoder" in read_yaml(one)]


@pytest.mark.parametrize("preset", [ROOT / "studies/latent/ffhq256-ldm.yaml", *LATENTS], ids=lambda preset: preset.stem)
def test_presets_of_latents_hold_what_the_study_reads(preset):
    Latent.read(preset)
    assert set(read_yaml(preset)) == set(read_yaml(ROOT / "studies/latent/params.yaml"))


@pytest.mark.parametrize("autoencoder", [TRAINED, FETCHED], ids=["trained", "fetched"])
def test_an_autoencoder_is_trained_or_fetched(tmp_path, autoencoder):
    changes = {"autoencoder": autoencoder | {"latent_channels": 4}}
    assert Latent.read(edited(ROOT / "studies/latent/params.yaml", changes, tmp_path)).seen == (4, 8)
