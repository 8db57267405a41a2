"""Measure the endpoints of a variant's or a base's training, and of its snapshots with half of the samples."""

import numpy as np

from unequal.comparison.measuring import Measuring, MeasuringSettings, along
from unequal.models.folder import RECORD, model_and_snapshots
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import read_json

#: Costs that a training's figures record and its models do not.
OWN_COSTS = ("search_flops", "measuring_flops", "pruning_seconds", "training_seconds")


@stage(MeasuringSettings, shared=True)
def main(run: Run, settings: MeasuringSettings, arm: str, block: int) -> None:
    """Measure a training."""
    measuring = Measuring.of(run, settings, block)
    folder = run.input(f"artifacts/models/{arm}/block_{block}")
    own = read_json(run.input(f"results/trainings/{arm}/block_{block}.json"))
    *snapshots, end = model_and_snapshots(folder) if (folder / RECORD).exists() else [folder]
    name = f"{arm}_{block}"
    figures = along(measuring, snapshots, end, name) if snapshots else measuring.figures(end, name)
    figures["costs"] |= {cost: own[cost] for cost in OWN_COSTS if cost in own}
    np.save(run.output(f"artifacts/samples/{arm}/block_{block}.npy"), measuring.samples(end, name))
    run.metrics(
        f"results/endpoints/{arm}/block_{block}.json",
        {"arm": arm, "block": block} | figures,
        {f"{endpoint}_{name}": value for endpoint, value in figures["endpoints"].items()},
    )
