"""Folders of replicas: the run's settings with other seeds, the same graph, and no needless change."""

import os
from pathlib import Path

import pytest
import yaml

from unequal.pipeline.replicas import prepare_replica, replica_params

SETTINGS = {
    "seed": 7,
    "replicas": 3,
    "data": {"source": "folder", "path": "pictures"},
    "network": {"pretrained": "owner/name@0123"},
    "evaluation": {"samples": 100, "seeds": [3, 5]},
}


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(SETTINGS))
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_seeds_of_replicas_and_of_their_samples_are_all_different():
    found = [SETTINGS, *(replica_params(SETTINGS, number) for number in (1, 2, 3))]
    assert [one["seed"] for one in found] == [7, 8, 9, 10]
    seeds = [seed for one in found for seed in one["evaluation"]["seeds"]]
    assert len(set(seeds)) == len(seeds) == 8
    assert {one["replicas"] for one in found[1:]} == {1}, "a replica makes none"
    assert SETTINGS["evaluation"] == {"samples": 100, "seeds": [3, 5]}


def test_a_replica_sees_the_same_graph_and_data_and_is_written_on_a_change_alone(project):
    folder = prepare_replica(1)
    params = folder / "params.yaml"
    assert folder == Path("replicas/seed_8")
    assert (folder / "dvc.yaml").samefile("dvc.yaml")
    settings = yaml.safe_load(params.read_text())
    assert (folder / settings["data"]["path"]).samefile("pictures")
    assert settings["network"] == SETTINGS["network"], "what lies on the Hub is named as it was"
    os.utime(params, (0, 0))
    prepare_replica(1)
    assert params.stat().st_mtime == 0
    (project / "params.yaml").write_text(yaml.safe_dump(SETTINGS | {"more": 1}))
    prepare_replica(1)
    assert yaml.safe_load(params.read_text())["more"] == 1
