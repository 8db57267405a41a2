"""Measure the gradients of the scout over the timesteps, from which the density of least variance follows."""

from studies.small_batches.densities import Densities
from studies.small_batches.gradients import meter_of
from studies.small_batches.params import Gradients
from unequal.artifacts.timestep_files import read_slots
from unequal.data.prepared import PreparedData
from unequal.models.folder import load_model
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    seed: int
    gradients: Gradients


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write slots, cells within them, and the second moments of single images' gradients in each."""
    data, chosen = PreparedData.open(run.input("artifacts/data")), settings.gradients
    net, record = load_model(run.input("artifacts/models/base"))
    slots = read_slots(run.input("artifacts/slots.json"), record.spec.timesteps).slots
    cells = slots.split(chosen.parts)
    sample = meter_of(net, record, data, chosen, settings.seed, run.device).sample(cells)
    values, errors = sample.estimate(lambda moments: moments.second)
    found = Densities(
        slots=slots,
        cells=cells,
        second_moments=tuple(values.tolist()),
        second_moments_stderr=tuple(errors.tolist()),
        uniform_share=chosen.uniform_share,
        scout={
            "images": record.images_seen,
            "training_flops": record.training_flops,
            "measured_images": len(cells) * (chosen.single_images + chosen.mean_images),
        },
    )
    run.metrics("results/densities.json", found.model_dump(mode="json"))


if __name__ == "__main__":
    main()
