"""Construct the timestep sampler of a recipe from the base's profile and the slots."""

from typing import Any

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_npz, write_json
from unequal.measures.loss_profile import LossProfile
from unequal.pipeline.stage import Run, stage
from unequal.ranges import read_slots
from unequal.settings.recipe import Sampler, needs_base
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.timesteps.samplers import build_sampler


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    sampler: Sampler = key("recipes.{recipe}.sampler")


@stage(Settings)
def main(run: Run, settings: Settings, recipe: str) -> None:
    """Build the sampler of a recipe."""
    losses = read_npz(run.input("artifacts/profiles/base.npz"), ["train"])["train"]
    loss = LossProfile.of(losses).mean
    slots = read_slots(run.input("artifacts/slots.json"), len(loss)).slots
    chosen = settings.sampler
    measured: dict[str, dict[str, Any]] = {
        "loss": {"loss": loss.tolist()},
        "loss_second_moment": {"losses": losses.tolist()},
        "stratified": {"slots": slots},
        "adaptive": {"slots": slots},
    }
    choice = chosen.model_dump() | (measured[chosen.kind] if needs_base(chosen) else {}) | {"timesteps": len(loss)}
    schedule = NoiseSchedule.named(settings.schedule.name, settings.schedule.timesteps)
    sampler = build_sampler(alphas_cumprod=schedule.alphas_cumprod.numpy(), **choice)
    write_json(run.output(f"artifacts/samplers/{recipe}.json"), choice)
    shares = [float(sampler.probabilities[first : last + 1].sum()) for first, last in slots]
    run.metrics(
        f"results/metrics/sampler_{recipe}.json",
        {"kind": chosen.kind, "least": float(np.min(sampler.probabilities)), "share_of_slots": shares},
    )


if __name__ == "__main__":
    main()
