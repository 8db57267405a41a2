"""Weights that would have to be downloaded from a host that cannot be reached are missed before a training."""

import socket
from typing import Any

import torch
from graph import ROOT
from one_line import refusal
from params_files import edited

from unequal.evaluation.weights import check_weights
from unequal.settings.params import Params

INCEPTION = {"kind": "inception", "weights": None, "features": 2048, "images": 8, "batch_size": 8, "lr": 1.0e-3}
EDITS: dict[str, Any] = {"extractor": INCEPTION, "evaluation.allow_singular": True}


def test_inception_is_at_hand_or_its_host_answers(tmp_path, monkeypatch):
    def unreachable(*_: Any) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    inception = Params.read(edited(ROOT / "presets/digits.yaml", EDITS, tmp_path))
    said = refusal(check_weights, inception)
    assert said.startswith("extractor.weights: null: ") and " cannot be reached; name a file" in said
    check_weights(Params.read(ROOT / "presets/digits.yaml"))  # a classifier needs none
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints/weights-inception-2015-12-05-6726825d.pth").touch()  # torch-fidelity's name
    check_weights(inception)
