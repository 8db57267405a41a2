"""Remarks on the machine: what other work does to measured times, and how many threads a stage should have."""

import os

import pytest
from graph import ROOT

from unequal.cli.machine import busy, recommended_threads
from unequal.settings.params import Params


@pytest.mark.parametrize(("load", "warned"), [(1.5, False), (2.5, True)])
def test_a_busy_machine_is_named(load: float, warned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert [f"load {load}" in line for line in busy()] == [True] * warned


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
