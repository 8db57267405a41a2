"""Planning a race: what a training costs on this machine, which plan suits the budget, and whether a race pays."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unequal.cli.architecture import network_of
from unequal.cli.estimate import on_device, rates, start_seconds
from unequal.diffusion.solvers import network_calls
from unequal.diffusion.spacing import spaced_timesteps
from unequal.errors import UserError
from unequal.models.backbones.backbone import count_cost, training_flops
from unequal.processes import threads
from unequal.race.plan import Plan
from unequal.race.showing import hours
from unequal.race.simulation import Prospect, best_prospects, plans
from unequal.settings.evaluation import Sampling
from unequal.settings.params import Raced

#: Fall of ln(FID) with a doubling of the images: of a U-Net on CIFAR-10 at 8 pixels, in a pilot.
FALL_PER_DOUBLING = 0.2
UNITS = {"h": 3600.0, "min": 60.0, "d": 86400.0}


@dataclass(frozen=True)
class Budget:
    """Price that a race may have: `amount` in seconds of this machine, or in images."""

    amount: float
    in_images: bool

    @classmethod
    def parsed(cls, hours: str | None, images: int | None) -> "Budget":
        """A budget from `40h`, `90min` or `2d`, or from a number of images. Raises UserError."""
        if (hours is None) == (images is None):
            raise UserError("a budget: give one, --budget 40h (h, min or d), or --images with a number")
        if hours is None:
            return cls(float(images or 0), in_images=True)
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(h|min|d)", hours)
        if found is None or not float(found[1]):
            raise UserError(f"--budget: '{hours}'; allowed: a number with h, min or d, as 40h")
        return cls(float(found[1]) * UNITS[found[2]], in_images=False)

    def shown(self, price: float) -> str:
        """A price in the unit of the budget."""
        return f"{price:,.0f} images" if self.in_images else hours(price)


@dataclass(frozen=True)
class Prices:
    """Prices of trainings of a race on this machine.

    Attributes:
        images: of a whole training.
        training: seconds of a whole training.
        scoring: seconds of a training's score.
        start: seconds of the imports of two stages.
    """

    images: int
    training: float
    scoring: float
    start: float

    def seconds(self, plan: Plan, arms: int) -> float:
        """A race on one device, one training after another."""
        return plan.cost(arms) * self.training + sum(plan.trainings(arms)) * (self.scoring + self.start)

    def price(self, plan: Plan, arms: int, budget: Budget) -> float:
        """The price of a plan in the unit of a budget."""
        return plan.cost(arms) * self.images if budget.in_images else self.seconds(plan, arms)


def measured_prices(params: Raced, images: int, sampling: Sampling) -> Prices:
    """Time a few steps and passes, and reckon what whole trainings and their scores cost."""
    net = network_of(params)
    device = torch.device("cuda" if torch.cuda.is_available() and params.runtime.device != "cpu" else "cpu")
    params = on_device(params, device)
    cost, schedule = count_cost(net), params.schedule.tables()
    calls = network_calls(sampling.solver, spaced_timesteps(sampling.steps, schedule, sampling.spacing))
    with threads(params.runtime.threads):
        speed = rates(params, net.to(device), device, compiled=False)
    samples = params.evaluation.samples * len(params.evaluation.seeds)
    training = training_flops(cost.macs, images) / speed.training[params.training.precision]
    return Prices(images, training, cost.macs * samples * len(calls) / speed.forward, 2 * start_seconds())


def proposed(
    arms: Sequence[str], control: str, rates: tuple[float, ...], delta: float, prices: Prices, budget: Budget
) -> list[Prospect]:
    """The most promising plans within a budget, the best first. Raises UserError where none fits."""

    def price(plan: Plan) -> float:
        return prices.price(plan, len(arms), budget)

    candidates = plans(control, rates, delta, len(arms))
    cheapest = min(map(price, candidates))
    if cheapest > budget.amount:
        raise UserError(
            f"--budget: {budget.shown(budget.amount)}; the cheapest race of {len(arms)} arms at {len(rates)} rates "
            f"takes {budget.shown(cheapest)}; raise it, name fewer --arms or --rates, or shorten race.recipe.images"
        )
    return best_prospects(candidates, len(arms), price, budget.amount)


def worth_of(prospect: Prospect) -> float:
    """Worth of a plan's expected gain in images of the control."""
    return math.exp(prospect.gain / (FALL_PER_DOUBLING / math.log(2)))


def pays_from(found: Prospect, price: float) -> float:
    """Length of the final training from which on a race of this price pays, in the unit of the price."""
    multiple = worth_of(found)
    return price / (multiple - 1) if multiple > 1 else math.inf


def refuse_what_does_not_pay(found: Prospect, price: float, final: Budget) -> None:
    """Raise UserError where the final training is too short for a race of this price."""
    if final.amount < (least := pays_from(found, price)):
        raise UserError(
            f"do not race: below {final.shown(least)} of final training it does not pay, and yours takes "
            f"{final.shown(final.amount)}"
        )


def table(found: Sequence[Prospect], prices: Prices, arms: int, budget: Budget) -> list[str]:
    """Lines of simulated plans, the best first."""
    head = (
        f"{'short':>14} {'whole':>16} {'finals':>14} {'fresh':>7} {'price':>14} {'regret':>7} {'near':>6} "
        f"{'better':>7} {'half':>6}"
    )
    lines = [head]
    for one in found:
        plan = one.plan
        short = "–" if plan.short is None else f"{len(plan.short[1])} at {plan.short[0]:g}"
        seated = "all" if plan.keep is None else plan.keep + 1
        whole = f"{seated} × {len(plan.whole)}{' × 2 rates' if plan.lower else ''}"
        finals = f"{plan.finalists + 1} × {len(plan.finals)}" if plan.finals else "–"
        fresh = f"{len(plan.confirm)}+{len(plan.further)}" if plan.further else f"{len(plan.confirm)}"
        price = budget.shown(prices.price(plan, arms, budget))
        lines.append(
            f"{short:>14} {whole:>16} {finals:>14} {fresh:>7} {price:>14} {100 * one.regret:6.1f}% "
            f"{one.near:6.0%} {one.better:7.0%} {one.better_half:6.0%}"
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
    """The file's own way of sampling, and others that cost as much or half."""
    steps = current["steps"] if isinstance(current["steps"], int) else len(current["steps"])
    common = {"steps": min(steps, timesteps), "eta": 0.0, "clip": current["clip"], "batch_size": current["batch_size"]}
    fast = {"solver": "dpm_solver_2m", "spacing": "log_snr"} | common
    others = {
        "ddim_log_snr": {"spacing": "log_snr"} | common,
        "dpm_solver_2m": fast,
        "dpm_solver_2m_half": fast | {"steps": max(2, steps // 2)},
    }
    return {"current": current} | {name: one for name, one in others.items() if one != current}
