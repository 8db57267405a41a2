"""Split the timesteps into contiguous slots of equal loss."""

from unequal.files import read_npz, write_json
from unequal.loss_profile import LossProfile, excess_loss
from unequal.partition import equal_loss_slots
from unequal.pipeline.stage import Run, stage
from unequal.settings.strict import StageSettings, key


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    count: int = key("slots.count")
    loss: str = key("slots.loss")


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Compute the slots from the base's profile."""
    base = read_npz(run.input("artifacts/profiles/base.npz"), ["train"])["train"]
    floor = read_npz(run.input("artifacts/profiles/floor.npz"), ["train"])["train"]
    total = LossProfile.of(base).mean
    choices = {"total": total}
    if floor.shape == base.shape:
        choices["excess"] = excess_loss(base, floor)
    slots = equal_loss_slots(choices[settings.loss], settings.count)
    write_json(run.output("artifacts/slots.json"), {"timesteps": len(base), "loss": settings.loss, "slots": slots})
    run.metrics("results/metrics/slots.json", {str(i): list(slot) for i, slot in enumerate(slots, 1)})


if __name__ == "__main__":
    main()
