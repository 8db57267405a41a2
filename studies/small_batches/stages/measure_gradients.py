"""Measure gradients at points of an arm's training, as they are and as Adam sees them."""

from pathlib import Path
from typing import Any

from studies.small_batches.densities import Densities
from studies.small_batches.gradients import figures_of, meter_of
from studies.small_batches.params import Gradients
from studies.small_batches.training import BatchSettings, job_of
from unequal.data.prepared import PreparedData
from unequal.models.folder import load_model, load_record, model_and_snapshots
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.training.checkpoint import TrainingState
from unequal.training.gradient_meter import AdamMeter, adam_scales


class Settings(BatchSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    gradients: Gradients


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Measure an arm within a block at its snapshots and at its end."""
    data = PreparedData.open(run.input("artifacts/data"))
    folder = run.input(f"artifacts/models/{arm}/block_{block}")
    densities = Densities.read(run.input("results/densities.json"), load_record(folder).spec.timesteps)
    points = [measured(run, settings, data, one, densities, block) for one in model_and_snapshots(folder)]
    run.metrics(f"results/gradients/{arm}/block_{block}.json", {"arm": arm, "block": block, "points": points})


def measured(
    run: Run, settings: Settings, data: PreparedData, folder: Path, densities: Densities, block: int
) -> dict[str, Any]:
    """A point of a training: what its last weights and its moments, as they were then, make of fresh draws."""
    net, record = load_model(folder)
    state = TrainingState.load(folder)
    net.load_state_dict(state.weights)
    job = job_of(record.name, settings.recipe, settings.arm, settings.training, data, block)
    chosen, second_beta = settings.gradients, job.recipe.optimizer.betas[1]
    meter = meter_of(net, record, data, chosen, torch_seed(settings.seed, block), run.device)
    samples = AdamMeter(meter, adam_scales(meter.net, state.moments, second_beta)).samples(densities.cells)
    figures = {metric: figures_of(one, densities, chosen.batch_size) for metric, one in samples.items()}
    return {"images": record.images_seen} | figures


if __name__ == "__main__":
    main()
