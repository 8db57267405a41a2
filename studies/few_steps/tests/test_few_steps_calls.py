from pathlib import Path

import pytest

from studies.few_steps.params import Params
from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import sampling_timesteps

STUDY = Path(__file__).parents[1]
PARAMS = Params.read(STUDY / "params.yaml")


@pytest.mark.parametrize("calls", PARAMS.sweep.calls)
@pytest.mark.parametrize("solver", PARAMS.sweep.solvers)
def test_every_solver_asks_the_network_as_often(solver: str, calls: int) -> None:
    sampling = PARAMS.sweep.ways[f"{solver}_uniform"].sampling(PARAMS.sampling, calls)
    assert (sampling.solver, sampling.spacing, sampling.clip) == (solver, "uniform", PARAMS.sampling.clip)
    assert len(network_calls(solver, sampling_timesteps(sampling.steps, 1000, "uniform"))) == calls
