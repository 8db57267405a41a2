"""The study's settings are sound, every way takes as many calls, and bad ones are a line."""

from pathlib import Path
from typing import Any

import pytest
from params_files import edited

from studies.few_steps.params import Params
from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import sampling_timesteps
from unequal.errors import UserError

STUDY = Path(__file__).parents[1]
PARAMS = Params.read(STUDY / "params.yaml")


@pytest.mark.parametrize("calls", PARAMS.sweep.calls)
@pytest.mark.parametrize("solver", PARAMS.sweep.solvers)
def test_every_solver_asks_the_network_as_often(solver: str, calls: int) -> None:
    sampling = PARAMS.sweep.ways[f"{solver}_uniform"].sampling(PARAMS.sampling, calls)
    assert (sampling.solver, sampling.spacing, sampling.clip) == (solver, "uniform", PARAMS.sampling.clip)
    assert len(network_calls(solver, sampling_timesteps(sampling.steps, 1000, "uniform"))) == calls


@pytest.mark.parametrize(
    ("edits", "complaint"),
    [
        ({"sweep.calls": [7, 8]}, "sweep: calls: 8; Heun's N steps take 2N − 1; allowed: odd numbers from 3"),
        ({"sweep.calls": [1]}, "sweep: calls: 1; Heun's N steps take 2N − 1"),
        ({"sweep.calls": [7, 1001]}, "sweep.calls: 1001; at most schedule.timesteps: 1000"),
        ({"sweep.calls": [7, 7]}, "sweep: calls: [7, 7] names one twice"),
        ({"sweep.seeds": [0, 200]}, "sweep: seeds and confirmation: [0, 200, 200, 201] names one twice"),
        (
            {"sweep.control.spacing": "edm", "sweep.spacings": ["uniform"]},
            "sweep: control: ddim_edm; allowed: ddim_uniform",
        ),
        ({"sweep.solvers": ["ddim"], "sweep.spacings": ["uniform"]}, "sweep: solvers and spacings: ddim_uniform alone"),
        ({"sampling.eta": 1.0}, "sampling.eta: 1; solvers of higher order add no noise; allowed: 0.0"),
        ({"network.pretrained": "somewhere"}, "network.pretrained: 'somewhere'; blocks begin with fresh weights: null"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(tmp_path: Path, edits: dict[str, Any], complaint: str) -> None:
    path = edited(STUDY / "params.yaml", edits, tmp_path)
    with pytest.raises(UserError) as refusal:
        Params.read(path)
    assert str(refusal.value).startswith(f"{path}: {complaint}"), refusal.value
    assert "\n" not in str(refusal.value)
