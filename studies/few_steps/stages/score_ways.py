"""Score the samples of a block's base by all ways of taking steps, with one number of calls of its network."""

from dataclasses import replace
from typing import Any

import numpy as np

from studies.few_steps.params import sampling_of
from unequal.comparison.measuring import SCORES, Measuring, MeasuringSettings
from unequal.comparison.settings import Comparison
from unequal.diffusion.solvers import network_calls
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.sampling.ensemble import Ensemble

#: Distinguishes the noise of the control's second samples.
OTHER_NOISE = 1


class Settings(MeasuringSettings):
    comparison: Comparison


@stage(Settings)
def main(run: Run, settings: Settings, block: int, calls: int) -> None:
    """Sample the base by all ways from the same noise, and score the samples."""
    base = Ensemble.load(run.input(f"artifacts/models/base/block_{block}"), run.device)
    # Spacings go by the losses of the half that nothing is reported of.
    measuring = Measuring.of(run, settings, block, half="choice")
    losses = np.asarray(measuring.errors(base, "base").epsilon.mean(1, dtype=float))
    common, comparison = measuring.scoring, settings.comparison
    seeds = tuple(torch_seed(seed, OTHER_NOISE) for seed in common.evaluation.seeds)
    again = replace(common, evaluation=common.evaluation.model_copy(update={"seeds": seeds}))

    def figures(way: str) -> dict[str, Any]:
        chosen = again if way == comparison.repeated.arm else common
        sampling = sampling_of(way, settings.sampling, calls)
        scoring = replace(chosen, sampling=sampling, losses=losses)
        found, timesteps = scoring.figures(base, way), scoring.timesteps(base)
        return {
            "endpoints": {"fid": found["fid_mean"]},
            "scores": {one: found[f"{one}_mean"] for one in SCORES},
            # Where several steps snapped to one timestep, there are fewer calls.
            "costs": {"calls_made": len(network_calls(sampling.solver, timesteps))},
            "timesteps": timesteps,
        }

    ways = {way: figures(way) for way in comparison.arms.all}
    conditions = measuring.conditions(common.conditions() | {"sampling": None})
    conditions |= {"parameters": base.parameters, "images": base.record.images_seen}
    content = {"block": block, "calls": calls, "ways": ways, "conditions": conditions}
    run.metrics(f"results/scores/calls_{calls}/block_{block}.json", content)
