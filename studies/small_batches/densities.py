"""Slots and densities that are known before the arms are trained: measured on a scout's training."""

from pathlib import Path
from typing import Any, Self, get_args

import numpy as np
from pydantic import Field, model_validator

from studies.small_batches.params import Arm, DensityName
from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.files import read_json
from unequal.settings.recipe import Recipe
from unequal.settings.sampler_base import SlotRanges
from unequal.settings.strict import Strict, validate
from unequal.timesteps.draws import Stratified, equal_over
from unequal.timesteps.samplers import TimestepSampler, WeightedSampler, least_variance_density

DENSITY_NAMES: tuple[DensityName, ...] = get_args(DensityName)


class Densities(Strict):
    """results/densities.json: slots of equal loss, cells within them, and the lengths of gradients in each cell."""

    slots: SlotRanges
    cells: SlotRanges
    second_moments: tuple[float, ...] = Field(description="E‖g‖² of single images, of each cell")
    second_moments_stderr: tuple[float, ...]
    uniform_share: float = Field(gt=0, le=1)
    scout: dict[str, Any] = Field(description="what was spent on it")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the densities of a file. Raises UserError where it is missing or damaged."""
        return validate(cls, read_json(path), path)

    @classmethod
    def read(cls, path: Path, timesteps: int) -> Self:
        """Read the densities of a file, for T timesteps. Raises UserError as `load` does, or for another T."""
        found = cls.load(path)
        for what in (found.slots, found.cells):
            what.covering(timesteps)
        return found

    @model_validator(mode="after")
    def cells_have_moments(self) -> Self:
        """One each, of which a density can be made."""
        try:
            self.density("least_variance")
        except UserError as error:
            raise ValueError(f"second_moments: {error}") from None
        return self

    def density(self, name: DensityName) -> np.ndarray:
        """p_t [T]."""
        if name == "slots":
            return equal_over(self.slots)
        return least_variance_density(self.cells, np.array(self.second_moments), self.uniform_share)

    def drawn(self, name: DensityName) -> TimestepSampler:
        """Draws from a density with weights that leave the expected gradient that of uniform timesteps.

        From slots every batch takes as many timesteps each (paper 1's conclusion); other draws are independent.
        """
        if name == "slots":
            return TimestepSampler(equal_over(self.slots), True, draw=Stratified(self.slots))
        return TimestepSampler(self.density(name), True)

    def weighted(self, name: DensityName) -> TimestepSampler:
        """Uniform draws whose losses are weighted by a density."""
        return WeightedSampler(self.density(name))


def sampler_of(arm: Arm, recipe: Recipe, schedule: NoiseSchedule, densities: Densities) -> TimestepSampler:
    """The timesteps of an arm: by its density, or else by its recipe."""
    if arm.density is None:
        return recipe.sampler.build(schedule)
    return densities.drawn(arm.density) if arm.serves == "draws" else densities.weighted(arm.density)
