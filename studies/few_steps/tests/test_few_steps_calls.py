from pathlib import Path

import pytest

from studies.few_steps.params import SOLVERS, Params, sampling_of
from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import sampling_timesteps

PARAMS = Params.read(Path(__file__).parents[1] / "params.yaml")


@pytest.mark.parametrize("calls", PARAMS.calls)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_asks_the_network_as_often(solver: str, calls: int) -> None:
    sampling = sampling_of(f"{solver}_uniform", PARAMS.sampling, calls)
    assert (sampling.solver, sampling.spacing, sampling.clip) == (solver, "uniform", PARAMS.sampling.clip)
    assert len(network_calls(solver, sampling_timesteps(sampling.steps, 1000, "uniform"))) == calls
