"""Train the end of an arm further, near the noise or inside single slots (paper 1, Fig. 1d to g); losses of slots."""

from pathlib import Path
from typing import Any

import numpy as np

from studies.small_batches.densities import Densities
from studies.small_batches.params import Retraining
from studies.small_batches.training import BatchSettings, job_of, retrained_by, sampler_along
from unequal.comparison.settings import arm_seed, shortened
from unequal.comparison.training import ChosenSettings
from unequal.data.prepared import PreparedData, tensor_of
from unequal.files import rounded
from unequal.measures.loss_profile import relative_change
from unequal.measures.profiling import Draws, profile
from unequal.models.folder import load_record
from unequal.pipeline.stage import Run, stage
from unequal.randomness import torch_seed
from unequal.sampling.ensemble import Ensemble
from unequal.settings.evaluation import Profile
from unequal.timesteps.partition import Partition
from unequal.training.initialisation import Start
from unequal.training.results import write_models
from unequal.training.train import train
from unequal.workspace import Nested


class Settings(BatchSettings, ChosenSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile
    retraining: Retraining


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train an arm's end further in every way, each from the same weights."""
    data, chosen = PreparedData.open(run.input("artifacts/data")), settings.retraining
    model = run.input(f"artifacts/models/{arm}/block_{block}")
    slots = Densities.read(run.input("results/densities.json"), load_record(model).spec.timesteps).slots

    def losses(folder: Path) -> np.ndarray:
        """Losses of ε [T, n] of a model by the same held-out draws, which a block has of its own."""
        images, labels, size = tensor_of(data.holdout_report), data.holdout_report_labels, settings.profile.batch_size
        net = Ensemble.load(folder, run.device)
        seed, count = torch_seed(settings.seed, block), settings.profile.images
        return profile(net, Draws.of(images, net.schedule.timesteps, count, seed, run.device, labels), size).epsilon

    before, found = losses(model), {}
    recipe = retrained_by(shortened(settings.recipe, 1.0, settings.tried(arm)), chosen)
    for way in chosen.ways:
        name, seed = f"{arm}_{way}/block_{block}", arm_seed(block, f"{arm}_{way}")
        job = job_of(name, recipe, settings.arm, settings.training, data, seed)
        sampler = sampler_along(way, slots, chosen.power)
        outcome = train(Nested(run, way), job, Start.of_model(model), sampler)
        folder = run.work / f"{way}_model"
        write_models(folder, outcome)
        found[way] = changes(before, losses(folder), slots) | {"images": outcome.trained.images_seen}
    run.metrics(f"results/retrained/{arm}/block_{block}.json", {"arm": arm, "block": block, "ways": found})


def changes(before: np.ndarray, after: np.ndarray, slots: Partition) -> dict[str, Any]:
    """Relative changes of the summed losses [T, n] of each slot and of all, with paired standard errors over draws."""
    by_slot = [relative_change(before[one.slice], after[one.slice]) for one in slots]
    whole, error = relative_change(before, after)
    return {
        "slots": [rounded(change) for change, _ in by_slot],
        "slots_stderr": [rounded(stderr) for _, stderr in by_slot],
        "all": rounded(whole),
        "all_stderr": rounded(error),
    }


if __name__ == "__main__":
    main()
