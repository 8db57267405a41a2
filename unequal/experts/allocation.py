"""Sharing a plan's images out over its groups: by fixed shares, or in rounds by what they gain (ours).

In rounds, a group's training is one training that is stopped and resumed: each round asks for more images of it, and
the loop takes up its own state, moments and average included. That is exact as long as the learning rate does not know
where the training ends, so rounds share out the part before the rate falls; the fall comes last, over the same share
of every group's training. What a group ends with is the model of one uninterrupted training of its budget.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.runtime.files import read_facts, write_facts
from unequal.settings.groups import ByGain, Plan
from unequal.settings.recipe import Recipe
from unequal.timesteps.building import sampler_inside
from unequal.timesteps.groups import TimestepGroup, foreseen_groups


class Point(NamedTuple):
    """Error of a group after a number of images."""

    group: int
    images: int
    error: float
    seconds: float


class Trace:
    """The points that have been measured, in a file: whoever was stopped measures none of them again.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points = [Point(*one) for one in read_facts(path) or []]

    def at(self, group: int, images: int, measure: Callable[[], tuple[float, float]]) -> Point:
        """The point of a group after so many images; `measure` returns its error and the seconds that it took."""
        for one in self.points:
            if one[:2] == (group, images):
                return one
        self.points.append(Point(group, images, *measure()))
        write_facts(self.path, self.points)
        return self.points[-1]

    def gain(self, group: int, images: int) -> float:
        """Fall of a group's error per image, over its last two points before a number of images."""
        before, after = [one for one in self.of(group) if one.images <= images][-2:]
        return (before.error - after.error) / (after.images - before.images)

    def of(self, group: int) -> list[Point]:
        return [one for one in self.points if one.group == group]


def shared_out(images: int, shares: Sequence[float]) -> list[int]:
    """Whole images in proportion to shares, all of them given out."""
    edges = np.rint(np.cumsum([0.0, *shares]) / np.sum(shares) * images).astype(int)
    return np.diff(edges).tolist()


def by_gain(
    chosen: ByGain,
    images: int,
    groups: int,
    batch: int,
    trace: Trace,
    measure: Callable[[int, int], tuple[float, float]],
) -> list[int]:
    """Images of each group's training before its rate falls.

    Args:
        chosen: the settings.
        images: to be given out, of all groups together.
        groups: how many.
        batch: images of an optimizer step.
        trace: what has been measured so far.
        measure: (group, images) → error of the group's model after training with so many, and seconds.

    Raises:
        UserError: a share or a round of less than a step.
    """
    first = shared_out(round(chosen.first * images), [1.0] * groups)
    rounds = shared_out(images - sum(first), [1.0] * chosen.rounds)
    if min(*first, *rounds) < batch:
        raise UserError(
            f"allocation: {images} images are {min(first)} a group at first and {min(rounds)} in each of "
            f"{chosen.rounds} rounds; a step takes {batch}"
        )
    given = [0] * groups

    def give(group: int, more: int) -> None:
        given[group] += more
        trace.at(group, given[group], lambda: measure(group, given[group]))

    for group in range(groups):
        give(group, 0)
        give(group, first[group])
    for more in rounds:
        give(max(range(groups), key=lambda group: trace.gain(group, given[group])), more)
    return given


def shares(plan: Plan, groups: Sequence[TimestepGroup]) -> list[float]:
    """The share of a plan's images that each group has before any is given out by gain."""
    if plan.allocation.kind == "timesteps":
        lengths = [group.range.length for group in groups]
        return [length / sum(lengths) for length in lengths]
    first = plan.allocation.first if isinstance(plan.allocation, ByGain) else 1.0
    return [first / len(groups)] * len(groups)


def measured_to_choose(plan: Plan, groups: int) -> int:
    """Held-out images that go forwards for budgets that are settled by them."""
    if not isinstance(plan.allocation, ByGain):
        return 0
    # Every group before its training and after its first share, and one in each round.
    return (plan.holdout_images or 0) * (2 * groups + plan.allocation.rounds)


def check_plan(plan: Plan, schedule: NoiseSchedule, base: Recipe, batch_size: int) -> None:
    """Raise UserError where a plan cannot be carried out, except where only measured losses can show it.

    Args:
        plan: the settings.
        schedule: whose timesteps are grouped.
        base: by which the base is trained.
        batch_size: of all trainings.
    """
    recipe = plan.recipe
    if recipe.prediction != base.prediction or recipe.prediction == "mixed":
        raise UserError(f"recipe.prediction: '{recipe.prediction}'; the base's is '{base.prediction}', of one head")
    if plan.from_images is not None and plan.from_images not in base.snapshots:
        raise UserError(f"from_images: {plan.from_images} is no snapshot of the base; it keeps {[*base.snapshots]}")
    groups = foreseen_groups(plan.groups, schedule)
    # Were a measured image as dear as one that is trained on.
    left = recipe.images - measured_to_choose(plan, len(groups))
    least = int(min(shares(plan, groups)) * left)
    for what, needed in (("a batch", batch_size), ("the warm-up", recipe.optimizer.warmup_images)):
        if least < needed:
            raise UserError(f"recipe.images: {recipe.images} leave {least} to a group; {what} takes {needed}")
    for group in [] if plan.groups.needs_excess else groups:
        sampler_inside(recipe.sampler, group.range, schedule)
