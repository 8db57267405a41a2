"""Slots, groups and samplers of timesteps as files: one stage writes them, the next checks them."""

from pathlib import Path
from typing import Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.runtime.files import read_json, write_json
from unequal.settings.densities import SlotRanges, partition_of
from unequal.settings.samplers import AnySampler
from unequal.settings.strict import Strict, validate
from unequal.timesteps.building import BaseMeasurements, build_sampler
from unequal.timesteps.groups import TimestepGroup
from unequal.timesteps.partition import Partition, TimestepRange, TimestepSet, stride_of, timesteps_of
from unequal.timesteps.samplers import TimestepSampler


class SlotTable(Strict):
    """slots.json: contiguous inclusive ranges over T timesteps."""

    timesteps: int = Field(gt=0)
    loss: str
    slots: SlotRanges

    @model_validator(mode="after")
    def slots_cover_all(self) -> Self:
        """Every timestep lies in one slot."""
        check_covering(self.slots, self.timesteps, "slots")
        return self

    def numbered(self, number: int) -> TimestepRange:
        """The range of a slot, counted from 1. Raises UserError where there is none."""
        if not 1 <= number <= len(self.slots):
            raise UserError(f"slot {number}: there are slots 1 … {len(self.slots)}")
        return self.slots[number - 1]


class NumberedGroup(Strict):
    """One group: its timesteps first, first + stride, … last, and its limit as a share of the base's FLOPs."""

    group: NonNegativeInt
    first: NonNegativeInt
    last: NonNegativeInt
    stride: PositiveInt = 1
    limit_ratio: float = Field(gt=0, le=1)

    @classmethod
    def of(cls, number: int, group: TimestepGroup) -> Self:
        """Number a group, counted from 0 at the data end."""
        steps, limit = group.range, group.limit_ratio
        return cls(group=number, first=steps.first, last=steps.last, stride=stride_of(steps), limit_ratio=limit)

    @property
    def range(self) -> TimestepSet:
        """Its timesteps."""
        return timesteps_of(self.first, self.last, self.stride)


class GroupTable(Strict):
    """groups.json: groups from the data end to the noise end."""

    timesteps: int = Field(gt=0)
    schedule: str
    shift: float | None = None
    kind: str
    min_ratio: float
    groups: tuple[NumberedGroup, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def groups_cover_all(self) -> Self:
        """Every timestep lies in one group, and groups are numbered in their order."""
        check_covering(self.partition, self.timesteps, "groups")
        if [one.group for one in self.groups] != list(range(len(self.groups))):
            raise ValueError("groups are not numbered 0, 1, 2 … from the data end")
        return self

    @property
    def partition(self) -> Partition:
        """All timesteps, a range for each group. Raises ValueError where there are no groups."""
        return partition_of([(one.first, one.last) for one in self.groups], "groups")

    @property
    def with_limits(self) -> list[TimestepGroup]:
        """All groups, each with its limit."""
        return [TimestepGroup(one.range, one.limit_ratio) for one in self.groups]

    def numbered(self, number: int) -> NumberedGroup:
        """A group, counted from 0. Raises UserError where there is none."""
        if not 0 <= number < len(self.groups):
            raise UserError(f"group {number}: there are groups 0 … {len(self.groups) - 1}")
        return self.groups[number]


def check_covering(partition: Partition, timesteps: int, what: str) -> None:
    """Raise ValueError where a partition covers another number of timesteps than its table says."""
    try:
        partition.covering(timesteps, what)
    except UserError as error:
        raise ValueError(str(error)) from None


def read_slots(path: Path, timesteps: int) -> SlotTable:
    """Read slots.json, for a model of T timesteps. Raises UserError where it is missing, altered or for another T."""
    table = validate(SlotTable, read_json(path), path)
    if table.timesteps != timesteps:
        raise UserError(f"{path}: slots of {table.timesteps} timesteps, the model has {timesteps}; compute them again")
    return table


def read_groups(path: Path) -> GroupTable:
    """Read groups.json. Raises UserError where it is missing or altered."""
    return validate(GroupTable, read_json(path), path)


class SamplerFile(Strict):
    """artifacts/samplers/<recipe>.json: the settings, T and the measurements of the base that they need."""

    sampler: AnySampler
    timesteps: int = Field(gt=0)
    loss: tuple[float, ...] | None = None
    losses: tuple[tuple[float, ...], ...] | None = None
    slots: SlotRanges | None = None

    @property
    def base(self) -> BaseMeasurements:
        """What is known of the base."""
        loss, losses = (None if rows is None else np.array(rows) for rows in (self.loss, self.losses))
        return BaseMeasurements(loss, losses, self.slots)


def write_sampler(path: Path, sampler: AnySampler, base: BaseMeasurements, timesteps: int) -> None:
    """Write the settings with the measurements that they need, for T timesteps."""
    needed = {name: np.asarray(base.of(name)).tolist() for name in sampler.needs}
    write_json(path, sampler.model_dump() | needed | {"timesteps": timesteps})


def read_sampler(path: Path, schedule: NoiseSchedule) -> TimestepSampler:
    """Build the sampler of a file. Raises UserError where it is missing, altered or for another number of timesteps."""
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise UserError(f"{path}: no settings of a sampler; make it again")
    known = {name: settings.pop(name) for name in ("timesteps", "loss", "losses", "slots") if name in settings}
    file = validate(SamplerFile, {"sampler": settings} | known, path)
    if file.timesteps != schedule.timesteps:
        raise UserError(f"{path}: made for {file.timesteps} timesteps, the model has {schedule.timesteps}")
    return build_sampler(file.sampler, schedule, file.base)
