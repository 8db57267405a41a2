"""Planning of a race: the cost of a training on this machine, the best plan for a budget, and whether a race pays."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unequal.cli.estimate import measured_here
from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import spaced_timesteps
from unequal.errors import UserError
from unequal.models.backbones.backbone import layer_macs, training_flops
from unequal.race.claim import Slope, pays_from, worth
from unequal.race.plan import Plan
from unequal.race.simulation import Prospect, plans
from unequal.report.formatting import duration
from unequal.settings.evaluation import Sampling
from unequal.settings.params import Raced

#: Fall of ln(FID) over images, 0.2 a doubling, measured in a pilot with a U-Net on CIFAR-10 at 8 pixels.
FALL = Slope(0.2 / math.log(2), error=0.0)
#: Variants that lowered FID most in the league, the best first.
PROMISING = ("min_snr", "info_noise", "logit_normal", "mode", "low_discrepancy")
#: Number of variants of a small race, and the smallest proposed share of a whole training's images.
FEW_ARMS, SHORTEST = 4, 1 / 8
UNITS = {"h": 3600.0, "min": 60.0, "d": 86400.0}


@dataclass(frozen=True)
class Budget:
    """Limit of a race's price: `amount` in seconds of this machine, or in images."""

    amount: float
    in_images: bool

    @classmethod
    def parsed(cls, hours: str | None, images: int | None) -> "Budget":
        """Parse a budget such as `40h`, `90min` or `2d`, or a number of images. Raises UserError."""
        if (hours is None) == (images is None):
            raise UserError("a budget: give one, --budget 40h (h, min or d), or --images with a number")
        if hours is None:
            return cls(float(images or 0), in_images=True)
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(h|min|d)", hours)
        if found is None or not float(found[1]):
            raise UserError(f"--budget: '{hours}'; allowed: a number with h, min or d, as 40h")
        return cls(float(found[1]) * UNITS[found[2]], in_images=False)

    def shown(self, price: float) -> str:
        """Format a price in the budget's unit."""
        return f"{price:,.0f} images" if self.in_images else duration(price)


@dataclass(frozen=True)
class Prices:
    """Prices of trainings of a race on this machine.

    Attributes:
        images: number of images of a whole training.
        training: seconds of a whole training.
        scoring: seconds to score a training.
        start: seconds of the imports of two stages.
    """

    images: int
    training: float
    scoring: float
    start: float


def measured_prices(params: Raced, images: int, sampling: Sampling, start: float) -> Prices:
    """Time a few steps and passes, and estimate from them the cost of whole trainings and their scores.

    Args:
        params: the settings.
        images: number of images of a whole training.
        sampling: sampling of a score.
        start: seconds of a stage's imports.
    """
    params, net, speed = measured_here(params)
    schedule = params.schedule.tables()
    calls = network_calls(sampling.solver, spaced_timesteps(sampling.steps, schedule, sampling.spacing))
    macs, samples = layer_macs(net), params.evaluation.samples * len(params.evaluation.seeds)
    training = training_flops(macs, images) / speed.training[params.training.precision]
    return Prices(images, training, macs * samples * len(calls) / speed.forward, 2 * start)


@dataclass(frozen=True)
class PricedRace:
    """A requested race, and the prices of its trainings on this machine."""

    arms: tuple[str, ...]
    control: str
    rates: tuple[float, ...]
    delta: float
    prices: Prices

    @property
    def plans(self) -> list[Plan]:
        """All plans for its variants and learning rates."""
        return plans(self.control, self.rates, self.delta, len(self.arms))

    def price(self, plan: Plan, budget: Budget) -> float:
        """The price of a plan in the unit of a budget: images, or seconds of one device, one training after another."""
        prices, arms = self.prices, len(self.arms)
        if budget.in_images:
            return plan.cost(arms) * prices.images
        return plan.cost(arms) * prices.training + sum(plan.trainings(arms)) * (prices.scoring + prices.start)

    def cheapest(self, budget: Budget) -> float:
        """The price of the cheapest plan in the unit of a budget."""
        return min(self.price(plan, budget) for plan in self.plans)

    def with_arms(self, count: int) -> "PricedRace":
        """Shrink the race to `count` variants: the control, and those with the best results in the league."""
        others = [arm for arm in self.arms if arm != self.control]
        ranked = sorted(others, key=lambda arm: PROMISING.index(arm) if arm in PROMISING else len(PROMISING))
        return replace(self, arms=(self.control, *ranked[: count - 1]))

    @property
    def at_one_rate(self) -> "PricedRace":
        """Reduce the race to one learning rate, the recipe's own if it is among them."""
        return replace(self, rates=(1.0,) if 1.0 in self.rates else self.rates[:1])

    def shortened(self, share: float) -> "PricedRace":
        """Shrink each whole training to a share of its images."""
        prices = replace(self.prices, images=round(share * self.prices.images), training=share * self.prices.training)
        return replace(self, prices=prices)

    def worth(self, found: Prospect, budget: Budget, images: int, asked: bool) -> Iterator[str]:
        """Yield lines on the least final training for which a race pays.

        Args:
            found: prospect of the plan.
            budget: budget, whose unit prices have.
            images: number of images of the recipe's own training.
            asked: whether the user gave the length of the final training.
        """
        price = self.price(found.plan, budget)
        least, own = (
            least_final(found, price),
            images * (1 if budget.in_images else self.prices.training / self.prices.images),
        )
        if math.isinf(least):
            yield "The simulated races gain nothing: do not race."
            return
        if own < least and not asked:
            yield f"The recipe's own training, of {budget.shown(own)}, is too short to race for; --final names another."
        yield (
            f"A race of {budget.shown(price)} pays from a final training of {budget.shown(least)} on, "
            "if variants differ here as on CIFAR-10."
        )

    def options(self, asked: "PricedRace") -> str:
        """Options of the command line that turn the race `asked` into this one."""
        words = []
        if len(self.arms) < len(asked.arms):
            words.append(f"--arms {','.join(arm for arm in self.arms if arm != self.control)}")
        if self.rates != asked.rates:
            words.append(f"--rates {','.join(f'{rate:g}' for rate in self.rates)}")
        if self.prices.images != asked.prices.images:
            words.append(f"--whole-images {self.prices.images}")
        return " ".join(words)


def counted(rates: Sequence[float]) -> str:
    """Number of some learning rates."""
    return "1 rate" if len(rates) == 1 else f"{len(rates)} rates"


def affordable(asked: PricedRace, budget: Budget) -> list[Plan]:
    """Plans within a budget. Raises UserError where there are none."""
    if found := [plan for plan in asked.plans if asked.price(plan, budget) <= budget.amount]:
        return found
    raise UserError(
        f"{'--images' if budget.in_images else '--budget'}: {budget.shown(budget.amount)}; the cheapest race of "
        f"{len(asked.arms)} variants at {counted(asked.rates)} takes {budget.shown(asked.cheapest(budget))}; raise it, "
        "name fewer --arms or --rates, or shorten trainings by --whole-images"
    )


def smaller_races(asked: PricedRace, budget: Budget) -> Iterator[str]:
    """Yield lines on races within a budget, with the options that shrink the requested race to them.

    The variants with the best results in the league remain; trainings shrink to no less than an eighth of their images.
    """
    found = shrunk(asked, budget)
    if not found:
        least = asked.with_arms(2).at_one_rate.shortened(SHORTEST)
        price = budget.shown(least.cheapest(budget))
        yield f"The smallest race is that of {least.options(asked)}; it takes {price}."
        return
    yield f"What fits {budget.shown(budget.amount)}, by options added to this command; each line is one choice:"
    for one in found:
        size = f"{len(one.arms)} variants with the control, {counted(one.rates)}, {one.prices.images:,} images"
        yield f"  {one.options(asked)}  ({size}: from {budget.shown(one.cheapest(budget))})"
    if any(one.prices.images < asked.prices.images for one in found):
        yield (
            "A race of shorter trainings finds the recipe for that length; "
            f"with {asked.prices.images:,} images another one may be best."
        )


def shrunk(asked: PricedRace, budget: Budget) -> list[PricedRace]:
    """Largest races within a budget: with fewer variants, one learning rate or shorter trainings; else all three."""
    single, counts = asked.at_one_rate, range(len(asked.arms), 1, -1)
    shares = [share / 16 for share in range(15, round(16 * SHORTEST) - 1, -1)]
    few = single.with_arms(FEW_ARMS)
    kinds: list[list[Iterable[PricedRace]]] = [
        [map(asked.with_arms, counts[1:]), map(single.with_arms, counts), map(asked.shortened, shares)],
        [map(few.shortened, shares), map(single.with_arms(2).shortened, shares)],
    ]
    for candidates in kinds:
        fitting = [next((one for one in kind if one.cheapest(budget) <= budget.amount), None) for kind in candidates]
        if found := [one for one in dict.fromkeys(fitting) if one is not None]:
            return found
    return []


def least_final(found: Prospect, price: float) -> float:
    """Least length of a final training for which a race of this price pays, in the price's unit; ∞: none."""
    return pays_from(price, worth(-found.gain, FALL)) or math.inf


def refuse_what_does_not_pay(found: Prospect, price: float, final: Budget) -> None:
    """Raise UserError where the final training is too short for a race of this price."""
    if final.amount < (least := least_final(found, price)):
        raise UserError(
            f"do not race: below {final.shown(least)} of final training it does not pay, and yours takes "
            f"{final.shown(final.amount)}"
        )


def table(found: Sequence[Prospect], race: PricedRace, budget: Budget) -> list[str]:
    """Table of simulated plans as lines, the best first."""
    head = (
        f"{'short':>14} {'whole':>16} {'finals':>14} {'fresh':>7} {'price':>14} {'FID lost':>8} {'within 5 %':>10} "
        f"{'shown':>6} {'half':>6}"
    )
    lines = [head]
    for one in found:
        plan = one.plan
        short = "–" if plan.short is None else f"{len(plan.short[1])} × {plan.short[0]:.3g}"
        seated = "all" if plan.keep is None else plan.keep + 1
        whole = f"{seated} × {len(plan.whole)}{' × 2 rates' if plan.lower else ''}"
        finals = f"{plan.finalists + 1} × {len(plan.finals)}" if plan.finals else "–"
        fresh = f"{len(plan.confirm)}+{len(plan.further)}" if plan.further else f"{len(plan.confirm)}"
        price = budget.shown(race.price(plan, budget))
        lines.append(
            f"{short:>14} {whole:>16} {finals:>14} {fresh:>7} {price:>14} {one.regret:8.1%} "
            f"{one.near:10.0%} {one.better:6.0%} {one.better_half:6.0%}"
        )
    return lines


def race_section(
    plan: Plan, recipe: dict[str, Any], arms: dict[str, Any], samplings: dict[str, Any], slots: dict[str, Any] | None
) -> dict[str, Any]:
    """The section `race` of a plan."""
    short = None if plan.short is None else {"share": plan.short[0], "seeds": list(plan.short[1])}
    finals = {"keep": plan.finalists, "seeds": list(plan.finals)} if plan.finals else None
    return {
        "recipe": recipe,
        "control": plan.control,
        "arms": arms,
        "rates": list(plan.rates),
        "endpoint": {"fid": plan.delta},
        "slots": slots,
        "samplings": samplings,
        "short": short,
        "whole": {"keep": plan.keep, "seeds": list(plan.whole), "lower_rate": plan.lower},
        "finals": finals,
        "confirm": {"seeds": list(plan.confirm), "further": list(plan.further)},
    }


def samplings_of(current: dict[str, Any], timesteps: int) -> dict[str, Any]:
    """Ways of sampling: the file's own, and others at equal or half the cost."""
    steps = current["steps"] if isinstance(current["steps"], int) else len(current["steps"])
    common = {"steps": min(steps, timesteps), "eta": 0.0, "clip": current["clip"], "batch_size": current["batch_size"]}
    fast = {"solver": "dpm_solver_2m", "spacing": "log_snr"} | common
    others = {
        "ddim_log_snr": {"spacing": "log_snr"} | common,
        "dpm_solver_2m": fast,
        "dpm_solver_2m_half": fast | {"steps": max(2, steps // 2)},
    }
    return {"current": current} | {name: one for name, one in others.items() if one != current}
