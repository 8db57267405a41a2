"""A recipe's sampler as a file: its settings with what they need of the base, so that a training opens no profile."""

from pathlib import Path

import numpy as np
from pydantic import Field

from unequal.artifacts.partitions import Slots
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.files import read_json, write_json
from unequal.settings.samplers import Measured, Sampler
from unequal.settings.strict import Strict, validate
from unequal.timesteps.samplers import TimestepSampler


class SamplerFile(Strict):
    """artifacts/samplers/<recipe>.json, where the settings stand beside what they need."""

    sampler: Sampler
    timesteps: int = Field(gt=0)
    loss: tuple[float, ...] | None = None
    losses: tuple[tuple[float, ...], ...] | None = None
    slots: Slots | None = None

    @property
    def base(self) -> Measured:
        """What is needed of the base."""
        found = Measured()
        if self.loss is not None:
            found["loss"] = np.array(self.loss)
        if self.losses is not None:
            found["losses"] = np.array(self.losses)
        if self.slots is not None:
            found["slots"] = self.slots
        return found


def write_sampler(path: Path, sampler: Sampler, base: Measured, timesteps: int) -> None:
    """Write the settings with what they need, for T timesteps."""
    needed = {need: np.asarray(base[need]).tolist() for need in sampler.needs}
    write_json(path, sampler.model_dump() | needed | {"timesteps": timesteps})


def read_sampler(path: Path, schedule: NoiseSchedule) -> TimestepSampler:
    """Build the sampler of a file. Raises UserError where it is missing, altered or for another number of timesteps."""
    content = read_json(path)
    beside = {name: content.pop(name) for name in SamplerFile.model_fields if name in content}
    file = validate(SamplerFile, {"sampler": content} | beside, path)
    if file.timesteps != schedule.timesteps:
        raise UserError(f"{path}: made for {file.timesteps} timesteps, the model has {schedule.timesteps}")
    return file.sampler.build(schedule, file.base)
