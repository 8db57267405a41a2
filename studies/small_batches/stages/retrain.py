"""Train the end of an arm on, near the noise or inside single slots (paper 1, Fig. 1d to g), and see what it does."""

from studies.small_batches.densities import Densities
from studies.small_batches.retrained import Looking, changes
from studies.small_batches.settings import Retraining
from studies.small_batches.training import BatchSettings, job_of, retrained_by, sampler_along
from unequal.comparison.settings import arm_seed, shortened
from unequal.comparison.training import ChosenSettings
from unequal.data.prepared import PreparedData
from unequal.files import write_npz
from unequal.models.folder import load_record
from unequal.pipeline.stage import Run, stage
from unequal.settings.evaluation import Sampling
from unequal.settings.profile import Profile
from unequal.training.initialisation import Start
from unequal.training.results import write_models
from unequal.training.train import train
from unequal.workspace import Nested


class Settings(BatchSettings, ChosenSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    profile: Profile
    sampling: Sampling
    retraining: Retraining


@stage(Settings)
def main(run: Run, settings: Settings, arm: str, block: int) -> None:
    """Train an arm's end on in every way, each from the same weights."""
    data, chosen = PreparedData.open(run.input("artifacts/data")), settings.retraining
    model = run.input(f"artifacts/models/{arm}/block_{block}")
    slots = Densities.read(run.input("results/densities.json"), load_record(model).spec.timesteps).slots
    looking = Looking(data, settings.profile, settings.sampling, chosen.samples, settings.seed, block, run.device)
    before, pictures = looking.at(model)
    found, shown, recipe = (
        {},
        {"before": pictures},
        retrained_by(shortened(settings.recipe, 1.0, settings.tried(arm)), chosen),
    )
    for way in chosen.ways:
        name, seed = f"{arm}_{way}/block_{block}", arm_seed(block, f"{arm}_{way}")
        job = job_of(name, recipe, settings.arm, settings.training, data, seed)
        sampler = sampler_along(way, slots, chosen.power)
        outcome = train(Nested(run, way), job, Start.of_model(model), sampler)
        folder = run.work / f"{way}_model"
        write_models(folder, outcome)
        after, shown[way] = looking.at(folder)
        found[way] = changes(before, after, slots) | {"images": outcome.trained.images_seen}
    write_npz(run.output(f"results/pictures_of/{arm}/block_{block}.npz"), **shown)
    run.metrics(f"results/retrained/{arm}/block_{block}.json", {"arm": arm, "block": block, "ways": found})


if __name__ == "__main__":
    main()
