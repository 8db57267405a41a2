"""A recipe's sampler as a file: its settings with what they need of the base, so that a training opens no profile."""

from pathlib import Path

import numpy as np
from pydantic import Field

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.files import read_json, write_json
from unequal.settings.measured import Measured
from unequal.settings.samplers import Sampler
from unequal.settings.strict import Strict, validate
from unequal.timesteps.samplers import TimestepSampler


class SamplerFile(Strict):
    """artifacts/samplers/<recipe>.json, where the settings, T and what is needed of the base stand side by side."""

    sampler: Sampler
    timesteps: int = Field(gt=0)
    base: Measured


def write_sampler(path: Path, sampler: Sampler, base: Measured, timesteps: int) -> None:
    """Write the settings with what they need, for T timesteps."""
    needed = {name: np.asarray(value).tolist() for name, value in base.items() if name in sampler.needs}
    write_json(path, sampler.model_dump() | needed | {"timesteps": timesteps})


def read_sampler(path: Path, schedule: NoiseSchedule) -> TimestepSampler:
    """Build the sampler of a file. Raises UserError where it is missing, altered or for another number of timesteps."""
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path}: no settings of a sampler; make it again")
    base = {name: settings.pop(name) for name in Measured.__annotations__ if name in settings}
    parts = {"timesteps": settings.pop("timesteps", None), "base": base, "sampler": settings}
    file = validate(SamplerFile, parts, path)
    if file.timesteps != schedule.timesteps:
        raise UserError(f"{path}: made for {file.timesteps} timesteps, the model has {schedule.timesteps}")
    return file.sampler.build(schedule, file.base)
