"""The study with a transformer in the network's place: latents are what it is trained on, pruned, routed and scored."""

from pathlib import Path
from typing import Any

import pytest
from harness.projects import commit, run, tiny_copy

from unequal.runtime.files import read_json

pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.usefixtures("warm_start")]

FOLDER = "studies/latent"
TRANSFORMER: dict[str, Any] = {"kind": "dit", "pretrained": None, "depth": 3, "width": 32, "heads": 4, "patch": 2}


def test_a_transformer_of_latents_goes_through_all_stages(tmp_path: Path) -> None:
    project = tiny_copy(tmp_path / "project", {"network": TRANSFORMER}, FOLDER)
    commit(project, "a transformer")
    run(project, "unequal", "compare", FOLDER)
    place = project / FOLDER
    records = [read_json(one) for one in sorted((place / "artifacts/models").rglob("model.json"))]
    assert len(records) >= 4
    assert {one["backbone"] for one in records} == {"dit"}
    assert {one["spec"]["space"]["autoencoder"] for one in records} == {
        read_json(place / "artifacts/models/base/model.json")["spec"]["space"]["autoencoder"]
    }
    base = read_json(place / "artifacts/models/base/model.json")
    pruned = [one["macs"] for one in records if one["macs"] < base["macs"]]
    assert pruned
    assert (place / "results/report.html").exists()
