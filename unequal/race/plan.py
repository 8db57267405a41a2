"""Course of a race: its rungs in order, the choice of the next candidates from results, and the cost.

Simulated and real races use the same functions.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from unequal.race.claim import Claim, look
from unequal.race.standing import (
    Candidate,
    Results,
    Scatter,
    best_of_arms,
    going_on,
    means,
    merged,
    scatter_of,
    seats,
)
from unequal.statistics.verdicts import UNDECIDED

#: Rungs in order. The claim follows from the last two, which have fresh seeds.
SHORT, WHOLE, FINALS, CONFIRM, FURTHER = ("short", "whole", "finals", "confirm", "further")


class Plan(NamedTuple):
    """Rungs of a race.

    Attributes:
        control: the variant that the winner is compared with.
        rates: factors of each variant's learning rate.
        delta: δ in ln(FID).
        short: share of the images, and seeds, of short trainings; None: whole trainings from the start.
        keep: number of variants besides the control that go on to whole trainings; None: all.
        whole: seeds of whole trainings.
        lower: whether variants also try the next lower learning rate in whole trainings.
        finalists: number of variants besides the control in the finals.
        finals: seeds of the finals; (): no finals.
        confirm: fresh seeds of the first look.
        further: fresh seeds that are added for the second look; (): no second look.
    """

    control: str
    rates: tuple[float, ...]
    delta: float
    short: tuple[float, tuple[int, ...]] | None
    keep: int | None
    whole: tuple[int, ...]
    lower: bool
    finalists: int
    finals: tuple[int, ...]
    confirm: tuple[int, ...]
    further: tuple[int, ...]

    def trainings(self, arms: int) -> tuple[int, int]:
        """Numbers of short and whole trainings of a race with `arms` variants that reaches its last rung."""
        tries, short = len(self.rates), 0
        if self.short is not None:
            short = arms * tries * len(self.short[1])
            tries = 2 if self.lower and tries > 1 else 1
        seated = arms if self.keep is None else min(arms, self.keep + 1)
        finals = min(seated, self.finalists + 1) * len(self.finals)
        fresh = 2 * (len(self.confirm) + len(self.further))
        return short, seated * tries * len(self.whole) + finals + fresh

    def cost(self, arms: int) -> float:
        """Cost of a race with `arms` variants that reaches its last rung, in whole trainings."""
        short, whole = self.trainings(arms)
        return whole + (short * self.short[0] if self.short else 0.0)


class Rung(NamedTuple):
    """Trainings that run together: candidates × blocks, each for a share of the images."""

    name: str
    candidates: tuple[Candidate, ...]
    blocks: tuple[int, ...]
    share: float = 1.0


def opening(plan: Plan, arms: Sequence[str]) -> Rung:
    """First rung: every variant at every learning rate."""
    everyone = tuple(Candidate(arm, rate) for arm in arms for rate in plan.rates)
    if plan.short is None:
        return Rung(WHOLE, everyone, plan.whole)
    share, seeds = plan.short
    return Rung(SHORT, everyone, seeds, share)


def following(plan: Plan, done: Mapping[str, Results]) -> Rung | None:
    """Next rung after those that are done; None: the race has ended."""
    last = list(done)[-1]
    if last == SHORT:
        results = done[SHORT]
        keep = len(best_of_arms(results)) if plan.keep is None else plan.keep
        arms = going_on(results, plan.control, keep, plan.delta, scatter_of(results))
        return Rung(WHOLE, tuple(seats(arms, best_of_arms(results), plan.rates, plan.lower)), plan.whole)
    if last == WHOLE and plan.finals:
        results = done[WHOLE]
        arms = going_on(results, plan.control, plan.finalists, plan.delta, scatter_of(results))
        return Rung(FINALS, tuple(seats(arms, best_of_arms(results), plan.rates, lower=False)), plan.finals)
    if last in (WHOLE, FINALS):
        pair = winner_and_control(plan, done)
        return None if pair[0].arm == plan.control else Rung(CONFIRM, pair, plan.confirm)
    if last == CONFIRM and plan.further and claim_of(plan, done).word == UNDECIDED:
        return Rung(FURTHER, tuple(done[CONFIRM]), plan.further)
    return None


def whole_results(done: Mapping[str, Results]) -> Results:
    """Results of whole trainings before the fresh ones, for candidates that took part in all such rungs."""
    return merged(*(done[rung] for rung in (WHOLE, FINALS) if rung in done))


def winner_and_control(plan: Plan, done: Mapping[str, Results]) -> tuple[Candidate, Candidate]:
    """Best candidate of all whole trainings, and the control's best candidate."""
    results = whole_results(done)
    return next(iter(means(results))), best_of_arms(results)[plan.control]


def whole_scatter(done: Mapping[str, Results]) -> Scatter:
    """Scatter of whole trainings before the fresh ones, pooled from candidates in all such rungs and from others."""
    common = whole_results(done)
    others = {one: blocks for one, blocks in done[WHOLE].items() if one not in common}
    return scatter_of(common).plus(scatter_of(others))


def claim_of(plan: Plan, done: Mapping[str, Results]) -> Claim:
    """Claim from all fresh blocks that are done."""
    winner, control = winner_and_control(plan, done)
    fresh = merged(*(done[rung] for rung in (CONFIRM, FURTHER) if rung in done))
    pairs = list(zip(fresh[winner].values(), fresh[control].values(), strict=True))
    return look(pairs, whole_scatter(done), plan.delta)
