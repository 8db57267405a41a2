"""Settings of the graph of latents: what is impossible is refused in one line; networks have the printed sizes."""

from pathlib import Path
from typing import Any

import pytest
from harness.projects import commit, run, tiny_copy
from one_line import refusal, unnumbered
from params_files import edited

from studies.latent.params import Params
from unequal.cli.architecture import Architecture, limited_groups, network_cost, network_space
from unequal.runtime.files import read_json
from unequal.settings.strict import read_yaml
from unequal.timesteps.groups import mean_limit

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "studies/latent"
TRAINED = read_yaml(STUDY / "params.yaml")["autoencoder"] | {"kind": "trained"}
FETCHED = {"kind": "pretrained", "source": "x", "latent_channels": 4, "factor": 2, "batch_size": 4, "precision": "auto"}
THREE_LEVELS = {"network.block_out_channels": [16, 16, 16]}
TWO_PIXELS = "data.image_size: 2 cannot be halved 2 times by the network; allowed: multiples"
REFUSED: list[tuple[dict[str, Any], str]] = [
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
]


@pytest.mark.parametrize(("edits", "complaint"), REFUSED)
def test_impossible_settings_are_refused_in_one_line(edits, complaint, tmp_path):
    path = edited(STUDY / "params.yaml", edits, tmp_path)
    assert unnumbered(refusal(Params.read, path), path).startswith(complaint)


LATENTS = [preset for preset in sorted((ROOT / "presets").glob("*.yaml")) if "autoencoder" in read_yaml(preset)]


@pytest.mark.parametrize("preset", [STUDY / "ffhq256-ldm.yaml", *LATENTS], ids=lambda preset: preset.stem)
def test_presets_of_latents_hold_what_the_graph_reads(preset):
    Params.read(preset)
    assert set(read_yaml(preset)) == set(read_yaml(STUDY / "params.yaml"))


@pytest.mark.parametrize("autoencoder", [TRAINED, FETCHED], ids=["trained", "fetched"])
def test_an_autoencoder_is_trained_or_fetched(tmp_path, autoencoder):
    changes = {"autoencoder": autoencoder | {"latent_channels": 4}}
    assert Params.read(edited(STUDY / "params.yaml", changes, tmp_path)).seen == (4, 8)


def test_latent_diffusions_network_is_that_of_paper_3():
    """274.1 M parameters and 96.1 G in its Table I; the shape of latents is known without their autoencoder."""
    params = Architecture.read(STUDY / "ffhq256-ldm.yaml")
    cost = network_cost(params)
    assert network_space(params).shape == (3, 64, 64)
    assert (cost.parameters / 1e6, cost.macs / 1e9) == pytest.approx((274.1, 96.1), rel=5e-3)
    assert params.groups and (len(params.groups.ids), params.groups.min_ratio) == (10, 0.5)
    assert mean_limit(limited_groups(params.schedule, params.groups)) == pytest.approx(0.8133, abs=1e-4)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_start")
def test_a_transformer_of_latents_goes_through_all_stages(tmp_path):
    transformer = {"kind": "dit", "pretrained": None, "depth": 3, "width": 32, "heads": 4, "patch": 2}
    project = tiny_copy(tmp_path / "project", {"network": transformer}, "studies/latent")
    commit(project, "a transformer")
    run(project / "studies/latent", "dvc", "init", "--no-scm", "--quiet")
    run(project, "snakemake", "--directory", "studies/latent", "--cores", "2")
    models = project / "studies/latent/artifacts/models"
    base = read_json(models / "base/model.json")
    records = [read_json(path) for path in models.rglob("model.json")]
    assert len(records) >= 4
    assert {record["backbone"] for record in records} == {"dit"}
    assert {record["spec"]["space"]["autoencoder"] for record in records} == {base["spec"]["space"]["autoencoder"]}
    assert any(record["macs"] < base["macs"] for record in records)
