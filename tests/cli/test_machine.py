"""Remarks on the machine: what other work does to measured times, and how many threads a stage should have."""

import os

import pytest
import torch
from graph import ROOT

from unequal.cli import machine
from unequal.cli.machine import busy, recommended_threads
from unequal.settings.params import Params


@pytest.mark.parametrize(("share", "said"), [(0.97, []), (0.43, ["43%"])])
def test_other_programs_are_named_with_what_they_leave(
    share: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "share_of_time", lambda _: share)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    lines = list(busy(Params.read(ROOT / "params.yaml")))
    assert [line[line.index("gets ") + 5 :][:3] for line in lines] == said
    assert all(line.endswith("takes about 0.4 of the time.") for line in lines)


def test_two_threads_of_one_core_get_half_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "SECONDS", 0.5)
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert 0 < machine.share_of_time(2) < 0.6
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize(
    ("speeds", "advice"),
    [
        ({"fp32": 1.0, "fp32, 4 threads": 1.5}, ["best: 1 for a whole run, with --cores 4; 4 for a single training."]),
        ({"fp32": 1.0, "fp32, 4 threads": 0.4}, ["best: 1."]),
        ({"fp32": 1.0, "fp32, 4 threads": 4.1}, ["best: set runtime.threads: 4."]),
        ({"fp32": 1.0}, []),
    ],
)
def test_threads_are_recommended_by_what_was_measured(
    speeds: dict[str, float], advice: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    params = Params.read(ROOT / "presets/digits.yaml")
    training = params.training.model_copy(update={"precision": "fp32"})
    lines = list(recommended_threads(speeds, params.model_copy(update={"training": training})))
    assert [line[line.index("best: ") :] for line in lines] == advice
