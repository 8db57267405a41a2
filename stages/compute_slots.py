"""Split the timesteps into contiguous slots of equal loss, and of equal excess over the optimal-denoiser loss."""

from contextlib import suppress
from typing import Any

import numpy as np

from unequal.errors import UserError
from unequal.evaluation.loss_profile import LossProfile, excess_loss
from unequal.evaluation.profiles import read_floor, read_losses
from unequal.pipeline.stage import Run, stage
from unequal.runtime.files import rounded, write_csv, write_json
from unequal.settings.strict import StageSettings, key
from unequal.timesteps.partition import Partition, equal_sums


class Settings(StageSettings):
    count: int = key("slots.count")
    loss: str = key("slots.loss")


def slot_sets(losses: dict[str, np.ndarray], count: int, chosen: str) -> dict[str, Partition]:
    """Compute slots by every loss; a loss other than the chosen one is left out where it cannot be split."""
    if chosen not in losses:
        raise UserError(f"slots.loss: '{chosen}' needs a floor; allowed: {', '.join(losses)}")
    sets = {chosen: equal_sums(losses[chosen], count)}
    for name in losses:
        with suppress(UserError):
            sets[name] = equal_sums(losses[name], count)
    return {name: sets[name] for name in losses if name in sets}


def rows(sets: dict[str, Partition], losses: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Make a row for each slot: its range in every set, and the share of every loss in it."""
    shares = {name: {loss: slots.shares_of(losses[loss]) for loss in sets} for name, slots in sets.items()}
    found = []
    for number in range(len(next(iter(sets.values())))):
        row: dict[str, Any] = {"slot": number + 1}
        for name, slots in sets.items():
            one = slots[number]
            row |= {f"{name}_first": one.first, f"{name}_last": one.last}
            row |= {f"{name}_share_of_{loss}": rounded(held[number]) for loss, held in shares[name].items()}
        found.append(row)
    return found


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Compute the slots from the base's profile."""
    base = read_losses(run.input("artifacts/profiles/base.npz"))
    floor = read_floor(run.input("artifacts/profiles/floor.npz"))
    losses = {"total": LossProfile.of(base).mean}
    if floor.size:
        losses["excess"] = excess_loss(base, floor)
    sets = slot_sets(losses, settings.count, settings.loss)
    chosen = {"timesteps": len(base), "loss": settings.loss, "slots": sets[settings.loss]}
    write_json(run.output("artifacts/slots.json"), chosen)
    write_csv(run.output("results/slots.csv"), rows(sets, losses))
    run.metrics("results/metrics/slots.json", sets)
