"""Slots and groups of timesteps as the files that stages hand on: written by one, checked by the next."""

from pathlib import Path

from pydantic import Field, NonNegativeInt

from unequal.errors import UserError
from unequal.files import read_json
from unequal.settings.strict import Strict, validate


class SlotTable(Strict):
    """slots.json: contiguous inclusive ranges over T timesteps."""

    timesteps: int = Field(gt=0)
    loss: str
    slots: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = Field(min_length=1)

    def of(self, number: int) -> tuple[int, int]:
        """The range of a slot, counted from 1. Raises UserError where there is none."""
        if not 1 <= number <= len(self.slots):
            raise UserError(f"slot {number}: there are slots 1 … {len(self.slots)}")
        return self.slots[number - 1]


class Group(Strict):
    """One group: its inclusive range and its limit as a share of the base's FLOPs."""

    group: NonNegativeInt
    first: NonNegativeInt
    last: NonNegativeInt
    limit_ratio: float = Field(gt=0, le=1)


class GroupTable(Strict):
    """groups.json: groups from the data end to the noise end."""

    timesteps: int = Field(gt=0)
    schedule: str
    min_ratio: float
    groups: tuple[Group, ...] = Field(min_length=1)

    def of(self, number: int) -> Group:
        """A group, counted from 0. Raises UserError where there is none."""
        if not 0 <= number < len(self.groups):
            raise UserError(f"group {number}: there are groups 0 … {len(self.groups) - 1}")
        return self.groups[number]


def read_slots(path: Path) -> SlotTable:
    """Read slots.json. Raises UserError where it is missing or altered."""
    return validate(SlotTable, read_json(path), path)


def read_groups(path: Path) -> GroupTable:
    """Read groups.json. Raises UserError where it is missing or altered."""
    return validate(GroupTable, read_json(path), path)
