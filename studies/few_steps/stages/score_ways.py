"""Score the samples of a block's base by all ways of taking steps, with one number of calls of its network."""

from dataclasses import replace
from typing import Any

import numpy as np

from studies.few_steps.params import Sweep, Way
from unequal.comparison.measuring import SCORES, Measuring, MeasuringSettings
from unequal.data.prepared import PreparedData
from unequal.diffusion.solvers import network_calls
from unequal.evaluation.fidelity import BuiltExtractor
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.sampling.ensemble import Ensemble

#: Distinguishes the noise of the control's second samples.
OTHER_NOISE = 1


class Settings(MeasuringSettings):
    sweep: Sweep


@stage(Settings)
def main(run: Run, settings: Settings, block: int, calls: int) -> None:
    """Sample the base by all ways from the same noise, and score the samples."""
    data = PreparedData.open(run.input("artifacts/data"))
    extractor = BuiltExtractor.load(run.input("artifacts/extractor"))
    base = Ensemble.load(run.input(f"artifacts/models/base/block_{block}"), run.device)
    # Spacings go by the losses of the half that nothing is reported of.
    measuring = Measuring(run, settings, data, extractor, block, half="choice")
    losses = np.asarray(measuring.errors(base, "base").epsilon.mean(1, dtype=float))
    common, sweep = measuring.scoring, settings.sweep
    seeds = tuple(torch_seed(seed, OTHER_NOISE) for seed in common.evaluation.seeds)
    again = replace(common, evaluation=common.evaluation.model_copy(update={"seeds": seeds}))

    def figures(name: str, way: Way) -> dict[str, Any]:
        chosen = again if name == sweep.repeated else common
        scoring = replace(chosen, sampling=way.sampling(settings.sampling, calls), losses=losses)
        found, timesteps = scoring.figures(base, name), scoring.timesteps(base)
        # Where several steps snapped to one timestep, there are fewer calls.
        made = {"calls": len(network_calls(way.solver, timesteps)), "timesteps": timesteps}
        return {one: found[f"{one}_mean"] for one in ("fid", *SCORES)} | made

    ways = {name: figures(name, way) for name, way in (sweep.ways | {sweep.repeated: sweep.control}).items()}
    conditions = measuring.conditions(common.conditions() | {"sampling": None})
    conditions |= {"parameters": base.parameters, "images": base.record.images_seen}
    content = {"block": block, "calls": calls, "ways": ways, "conditions": conditions}
    run.metrics(f"results/scores/calls_{calls}/block_{block}.json", content)
