"""Simulated races: how well plans choose, how often they claim, and which plan suits a race and its budget.

A world is a set of variants with their true effects in ln(FID). Its constants are measured on this project's trainings
or assumed. They decide which plan is proposed, and do not enter a race's verdicts.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from unequal.race.claim import Claim
from unequal.race.plan import CONFIRM, Plan, Rung, claim_of, following, opening, winner_and_control
from unequal.race.standing import Candidate
from unequal.statistics.verdicts import BETTER

#: Standard deviation of ln(FID) between trainings of a block (measured), and between blocks, common to all variants.
TRAINING, BLOCK = 0.054, 0.07
#: Assumed: increase of ln(FID) at twice or half a variant's best learning rate; standard deviation of best rates
#: between variants, and their fall per doubling of the images, in octaves; standard deviation of the change of a
#: variant's effect on ln(FID) per doubling.
CURVATURE, RATES_APART, RATES_FALL, CROSSING = 0.04, 0.5, 0.25, 0.02
#: A chosen variant counts as good within this distance of the best, in ln(FID).
NEAR = 0.05
#: Differences of ln(FID) of ten recipes from uniform timesteps after equal images: means over six
#: blocks, of a U-Net on CIFAR-10 at 8 pixels.
LEAGUE = (-0.295, -0.266, -0.237, -0.136, -0.050, -0.030, 0.020, 0.026, 0.027, 0.149, 0.537)


class World(NamedTuple):
    """Variants with their true effects on ln(FID); the first is the control.

    Attributes:
        effects: effects on ln(FID) of whole trainings at the best learning rate, [variants].
        best_rates: best learning rates relative to the recipe's, in octaves, [variants].
        crossing: change of the effects per halving of the images, [variants].
        curvature: increase of ln(FID) at one octave from the best learning rate.
    """

    effects: np.ndarray
    best_rates: np.ndarray
    crossing: np.ndarray
    curvature: float

    @classmethod
    def drawn(cls, generator: np.random.Generator, arms: int, scale: float) -> "World":
        """Draw the effects of all variants but the control from the league, times a scale; 0: no variant differs."""
        effects = scale * generator.choice(LEAGUE, arms - 1, replace=arms - 1 > len(LEAGUE))
        apart = RATES_APART * generator.normal(size=arms)
        crossing = CROSSING * generator.normal(size=arms) * bool(scale)
        return cls(np.array([0.0, *effects]), apart, crossing, CURVATURE * bool(scale))

    def expected(self, arm: int, rate: float, share: float = 1.0) -> float:
        """Expected ln(FID) of a variant at a learning rate, without scatter and without what all variants share."""
        doublings = -np.log2(share)
        away = np.log2(rate) - self.best_rates[arm] - RATES_FALL * doublings
        return float(self.effects[arm] + self.curvature * away**2 + self.crossing[arm] * doublings)


class Course(NamedTuple):
    """Outcome of a simulated race.

    Attributes:
        winner: the candidate that wins.
        regret: its expected ln(FID) less that of the truly best candidate.
        arm_regret: the same for variants, each at its best learning rate.
        claim: claim on fresh seeds; None where the control wins.
    """

    winner: Candidate
    regret: float
    arm_regret: float
    claim: Claim | None


def name(arm: int) -> str:
    """Name of a simulated variant."""
    return f"arm_{arm}"


def number(arm: str) -> int:
    """Number of the simulated variant with this name."""
    return int(arm.removeprefix("arm_"))


def simulate(plan: Plan, world: World, generator: np.random.Generator) -> Course:
    """Run a race in a world, whose first variant is the control."""
    arms, plan = len(world.effects), plan._replace(control=name(0))
    done: dict[str, dict[Candidate, dict[int, float]]] = {}
    rung: Rung | None = opening(plan, [name(arm) for arm in range(arms)])
    while rung is not None:
        done[rung.name] = trained(rung, world, generator)
        rung = following(plan, done)
    winner, _ = winner_and_control(plan, done)
    best = [min(world.expected(arm, rate) for rate in plan.rates) for arm in range(arms)]
    chosen = number(winner.arm)
    regrets = world.expected(chosen, winner.rate) - min(best), best[chosen] - min(best)
    return Course(winner, *regrets, claim_of(plan, done) if CONFIRM in done else None)


def trained(rung: Rung, world: World, generator: np.random.Generator) -> dict[Candidate, dict[int, float]]:
    """Draw the results of a rung."""
    common = BLOCK * generator.normal(size=len(rung.blocks))
    own = TRAINING * generator.normal(size=(len(rung.candidates), len(rung.blocks)))
    expected = np.array([world.expected(number(one.arm), one.rate, rung.share) for one in rung.candidates])
    values = (expected[:, None] + common + own).tolist()
    return {one: dict(zip(rung.blocks, row, strict=True)) for one, row in zip(rung.candidates, values, strict=True)}


class Prospect(NamedTuple):
    """Expected outcome of a plan, from simulated races.

    Attributes:
        plan: the plan.
        cost: cost up to its last rung, in whole trainings.
        regret: mean ln(FID) of the winner less that of the best candidate, with effects as large as in the league.
        near: share of races that choose a variant within 5 % of the best.
        better: share of races that call the winner better than the control.
        better_half: the same share with effects half as large.
        gain: mean ln(FID) of the control less that of the winner.
    """

    plan: Plan
    cost: float
    regret: float
    near: float
    better: float
    better_half: float
    gain: float


def prospect(plan: Plan, arms: int, races: int, seed: int = 0) -> Prospect:
    """Simulate races by a plan for `arms` variants, and summarize their outcomes."""
    generator = np.random.default_rng(seed)
    whole, half = (
        [(simulate(plan, world := World.drawn(generator, arms, scale), generator), world) for _ in range(races)]
        for scale in (1.0, 0.5)
    )
    regret = float(np.mean([course.regret for course, _ in whole]))
    near = float(np.mean([course.arm_regret < NEAR for course, _ in whole]))
    gains = [
        world.expected(0, 1.0) - world.expected(number(course.winner.arm), course.winner.rate)
        for course, world in whole
    ]
    better, better_half = (
        float(np.mean([course.claim is not None and course.claim.word == BETTER for course, _ in courses]))
        for courses in (whole, half)
    )
    return Prospect(plan, plan.cost(arms), regret, near, better, better_half, float(np.mean(gains)))


def plans(control: str, rates: tuple[float, ...], delta: float, arms: int) -> list[Plan]:
    """Plans for `arms` variants."""
    shorts = [None, *((share, tuple(range(100, 100 + seeds))) for share in (0.125, 0.25, 0.5) for seeds in (1, 2))]
    keeps = sorted({1, 2, 3, 4, 5, 6, 8} & set(range(1, arms - 1)))
    return [
        Plan(control, rates, delta, short, keep, (0, 1)[:whole], lower, finalists, finals, (200, 201, 202), further)
        for short in shorts
        for keep in (keeps if short else [None])
        for whole in (1, 2)
        for lower in ((False, True) if short and len(rates) > 1 else (False,))
        for finalists in (1, 2, 3)
        if finalists < (keep or arms)
        for finals in ((), (2,), (2, 3))
        if whole + len(finals) > 1 and (finals or finalists == 1)
        for further in ((), (203, 204, 205))
    ]


def best_prospects(
    candidates: Sequence[Plan], arms: int, price: Callable[[Plan], float], budget: float, count: int = 5
) -> list[Prospect]:
    """Most promising plans within a budget.

    Plans that use most of the budget are simulated with few races each, and the best of them again with many.
    """
    affordable = sorted((one for one in candidates if price(one) <= budget), key=price)
    using = [one for one in affordable if price(one) >= 0.8 * price(affordable[-1])]
    tried = using[:: max(1, len(using) // TRIED)]
    first = sorted((prospect(one, arms, FEW) for one in tried), key=merit)[:count]
    return sorted((prospect(one.plan, arms, MANY, seed=1) for one in first), key=merit)


#: Number of plans that are simulated at first, races of each, and races of each plan in the second round.
TRIED, FEW, MANY = 60, 40, 300


def merit(one: Prospect) -> float:
    """Criterion of prospects, of which lower is better.

    One per cent of FID weighs as much as a tenth of races that miss the best variants, or a fifth without a claim.
    """
    return one.regret - 0.1 * one.near - 0.05 * (one.better + one.better_half) / 2
