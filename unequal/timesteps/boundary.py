"""The boundary between two experts as λ = ln SNR, which is the same for every path and shift."""

import math
from dataclasses import dataclass
from typing import Self

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.timesteps.partition import Partition


@dataclass(frozen=True)
class Boundary:
    """Boundary between two experts: more noise, or as much, is for the one at the noise end.

    Attributes:
        log_snr: λ = ln(α²/σ²), natural; × 10/ln 10 in decibels.
    """

    log_snr: float

    @classmethod
    def at_time(cls, time: float, shift: float = 1.0) -> Self:
        """At a time s of a flow before it is shifted by k; with k = 1, at s = σ/(α + σ) itself.

        A time after the shift, as 1000·s ≥ 875 by Wan 2.2, is a time of k = 1. Raises UserError outside (0, 1).
        """
        if not 0 < time < 1 or not shift > 0:
            raise UserError(f"a boundary at s = {time} with a shift of {shift}; allowed: in (0, 1), above 0")
        return cls(2 * math.log((1 - time) / (shift * time)))

    @classmethod
    def at_timestep(cls, timestep: int, schedule: NoiseSchedule) -> Self:
        """At the first timestep of the expert at the noise end. Raises UserError where there is no such timestep."""
        if not 0 <= timestep < schedule.timesteps:
            raise UserError(f"a boundary at t = {timestep}; allowed: 0 … {schedule.timesteps - 1}")
        return cls(float(schedule.snr.log()[timestep]))  # of the table, by which `timestep` goes

    def time(self, shift: float = 1.0) -> float:
        """s of a flow before it is shifted by k; with k = 1, s = σ/(α + σ)."""
        return 1 / (1 + shift * math.exp(self.log_snr / 2))

    def timestep(self, schedule: NoiseSchedule) -> int:
        """The first timestep of the expert at the noise end; T where all are for the other."""
        return int((schedule.snr.log() > self.log_snr).sum())

    def ranges(self, schedule: NoiseSchedule) -> Partition:
        """The timesteps of both experts. Raises UserError where one of them has none."""
        first = self.timestep(schedule)
        if not 0 < first < schedule.timesteps:
            raise UserError(
                f"a boundary at λ = {self.log_snr:.3f} leaves one expert without a timestep of schedule "
                f"'{schedule.name}', whose λ fall from {schedule.snr[0].log():.3f} to {schedule.snr[-1].log():.3f}"
            )
        return Partition.of_lengths([first, schedule.timesteps - first])
