"""Build the timestep sampler of a recipe from the base's profile and the slots."""

import numpy as np

from unequal.diffusion.schedule import noise_schedule
from unequal.evaluation.loss_profile import LossProfile
from unequal.evaluation.profiles import read_losses
from unequal.pipeline.stage import Run, stage
from unequal.settings.samplers import AnySampler
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings, key
from unequal.timesteps.building import BaseMeasurements, build_sampler
from unequal.training.timestep_files import read_slots, write_sampler


class Settings(StageSettings):
    schedule: Schedule
    sampler: AnySampler = key("recipes.{recipe}.sampler")


@stage(Settings)
def main(run: Run, settings: Settings, recipe: str) -> None:
    """Build the sampler of a recipe."""
    losses = read_losses(run.input("artifacts/profiles/base.npz"))
    slots = read_slots(run.input("artifacts/slots.json"), len(losses)).slots
    base = BaseMeasurements(loss=LossProfile.of(losses).mean, losses=losses, slots=slots)
    schedule = noise_schedule(settings.schedule)
    sampler = build_sampler(settings.sampler, schedule, base)
    write_sampler(run.output(f"artifacts/samplers/{recipe}.json"), settings.sampler, base, schedule.timesteps)
    shares = slots.sums(sampler.probabilities).tolist()
    least = float(np.min(sampler.probabilities))
    facts = {"density": settings.sampler.density, "least": least, "share_of_slots": shares}
    run.metrics(f"results/metrics/sampler_{recipe}.json", facts)
