"""Findings of a race: the winner, the claim, its worth, its cost, and the recipe that is the best bet."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from unequal.race.bracket import SLOTS, measured, plan_of, rungs, training_name
from unequal.race.claim import Claim, Slope, pays_from, worth
from unequal.race.experts import base_recipe, plan_of_experts
from unequal.race.judging import claim_document
from unequal.race.plan import (
    CONFIRM,
    FURTHER,
    SHORT,
    WHOLE,
    Plan,
    claim_of,
    whole_results,
    whole_scatter,
    winner_and_control,
)
from unequal.race.standing import Candidate, Results, Scatter, best_of_arms, means, shrunk_effect
from unequal.race.training import recipe_at
from unequal.report.formatting import label
from unequal.runtime.files import json_or_none, read_json
from unequal.settings.race import Race, draws_from_slots, with_slots
from unequal.settings.recipe import Recipe
from unequal.statistics.verdicts import BETTER, SAME, WORSE
from unequal.timesteps.partition import Partition


@dataclass(frozen=True)
class Standing:
    """A race up to its last judged rung.

    Attributes:
        race: its settings.
        done: results of all rungs so far.
        ended: whether no rung follows.
        seconds: rung → seconds of trainings, and of scoring them.
        sampling: the chosen way of sampling; the race's first where there is no choice.
        slots: slots of the control's first training; None where no variant draws from slots, or that training has
            collapsed.
    """

    race: Race
    done: Mapping[str, Results]
    ended: bool
    seconds: Mapping[str, tuple[float, float]]
    sampling: str
    slots: Partition | None

    @property
    def plan(self) -> Plan:
        """Course of the race."""
        return plan_of(self.race)

    @property
    def has_whole(self) -> bool:
        """Say whether whole trainings are judged."""
        return WHOLE in self.done

    @property
    def pair(self) -> tuple[Candidate, Candidate]:
        """The winner so far, and the control's best candidate."""
        if self.has_whole:
            return winner_and_control(self.plan, self.done)
        results = self.done[SHORT]
        return next(iter(means(results))), best_of_arms(results)[self.race.control]

    @property
    def claim(self) -> Claim | None:
        """Claim on fresh seeds; None: no fresh training is judged yet."""
        return claim_of(self.plan, self.done) if CONFIRM in self.done else None

    @property
    def scatter(self) -> Scatter:
        """Scatter of whole trainings."""
        return whole_scatter(self.done) if self.has_whole else Scatter()

    @property
    def bet(self) -> Candidate:
        """Best bet: the winner, or the control where the winner's estimated effect is unfavourable."""
        winner, control = self.pair
        if self.claim is not None and self.claim.word == WORSE:
            return control
        known = bet_effect(self)
        return control if known is not None and known > 0 else winner

    @property
    def recipe(self) -> Recipe:
        """Recipe of the best bet, for a whole training."""
        recipe = self.race.recipe_of(self.bet.arm)
        if draws_from_slots(recipe) and self.slots is not None:
            recipe = with_slots(recipe, self.slots)
        return recipe_at(recipe, self.bet.rate)

    @property
    def slope(self) -> Slope | None:
        """Slope of the control's FID over images; None where it has no short trainings or its FID does not fall."""
        control = self.pair[1]
        if SHORT not in self.done or not self.has_whole or control not in self.done[SHORT] or self.race.short is None:
            return None
        short, whole = self.done[SHORT][control], whole_results(self.done)[control]
        return Slope.between(list(short.values()), list(whole.values()), self.race.short.share, self.scatter.variance)

    def images(self) -> dict[str, int]:
        """Rung → images of all its trainings."""
        whole, course = self.race.recipe.images, rungs(self.race, self.done)
        counted = [one for one in course if one.name in self.done]
        return {one.name: round(len(one.candidates) * len(one.blocks) * one.share * whole) for one in counted}


def bet_effect(standing: Standing) -> float | None:
    """Difference of winner and control in ln(FID) over all whole trainings; None: no winner besides the control.

    The race's own trainings enter as a shrunk forecast, since they selected the winner.
    """
    winner, control = standing.pair
    if winner.arm == control.arm or not standing.has_whole:
        return None
    results, claim = whole_results(standing.done), standing.claim
    _, forecast = shrunk_effect(results, winner.arm, control.arm, standing.scatter)
    if claim is None or claim.estimate is None:
        return forecast
    before, fresh = len(results[winner]), claim.blocks
    return (before * forecast + fresh * claim.estimate.difference) / (before + fresh)


def findings(standing: Standing) -> dict[str, Any]:
    """Findings of the page, as JSON."""
    (winner, control), claim, bet = standing.pair, standing.claim, bet_effect(standing)
    images, slope, multiple, shown = standing.images(), standing.slope, None, None
    cost, difference = (
        sum(images.values()),
        bet if claim is None or claim.estimate is None else claim.estimate.difference,
    )
    if difference is not None and slope is not None and difference < 0:
        multiple = worth(difference, slope)
    if bet is not None:
        looks, _ = shrunk_effect(whole_results(standing.done), winner.arm, control.arm, standing.scatter)
        shown = {"as_it_looks": math.expm1(looks), "forecast": math.expm1(bet)}
    return {
        "sentence": sentence(standing),
        "ended": standing.ended,
        "winner": winner._asdict(),
        "control": control._asdict(),
        "best_bet": standing.bet._asdict(),
        "claim": None if claim is None else claim_document(claim),
        "effect_in_the_race": shown,
        "sampling": standing.sampling,
        "scatter_of_a_training": math.sqrt(standing.scatter.variance) if standing.scatter.freedom else None,
        "worth_in_images_of_the_control": multiple,
        "cost_in_images": images,
        "cost_in_whole_trainings": cost / standing.race.recipe.images,
        "cost_in_hours": {rung: sum(both) / 3600 for rung, both in standing.seconds.items()},
        "pays_from_images": None if multiple is None else pays_from(cost, multiple),
    }


def called(candidate: Candidate) -> str:
    """Name of a candidate in text."""
    name = label(candidate.arm)
    return name if candidate.rate == 1 else f"{name} at {candidate.rate:g} × its learning rate"


def sentence(standing: Standing) -> str:
    """State the result in one sentence."""
    winner, control = standing.pair
    if not standing.has_whole:
        return f"After short trainings {called(winner)} leads; nothing is shown yet."
    if winner.arm == control.arm:
        return f"The control, {called(control)}, came first: no variant is a better bet on these data."
    claim, name = standing.claim, called(winner)[:1].upper() + called(winner)[1:]
    if claim is None or claim.estimate is None:
        return f"{name} leads the whole trainings; fresh seeds have not spoken yet."
    change = 100 * math.expm1(claim.estimate.difference)
    size, blocks = f"{abs(change):.1f} %", f"{claim.blocks} fresh seeds"
    direction = "lower" if change < 0 else "higher"
    if claim.word == BETTER:
        return f"{name} is shown to be better than {called(control)}: FID is {size} lower on {blocks}."
    if claim.word == WORSE:
        return f"{name} won the race but is worse on {blocks}; stay with {called(control)}."
    if claim.word == SAME:
        return f"{name} and {called(control)} are the same within {100 * standing.race.delta:.0f} %."
    bet = name if standing.bet == winner else called(control)
    return (
        f"{bet[:1].upper() + bet[1:]} is the best bet, nothing is shown: on {blocks} FID is {size} {direction} with "
        f"{called(winner)} than with {called(control)}; undecided."
    )


def seconds_of(
    race: Race, done: Mapping[str, Results], trainings: Path, scoring: Path
) -> dict[str, tuple[float, float]]:
    """Rung → seconds of its trainings, and of their scores, read from one folder per rung."""
    found = {}
    for rung in rungs(race, done):
        if rung.name not in done:
            continue
        names = [training_name(one, block) for one in rung.candidates for block in rung.blocks] + ["slots"]
        sums = [
            sum((json_or_none(folder / rung.name / f"{name}.json") or {}).get(key, 0.0) for name in names)
            for folder, key in ((trainings, "training_seconds"), (scoring, "seconds"))
        ]
        found[rung.name] = (sums[0], sums[1])
    return found


def chosen_sampling(race: Race, done: Mapping[str, Results], folder: Path = Path()) -> str:
    """Name of the way of sampling by which fresh trainings were also scored; the first if there is none."""
    for one, blocks in done.get(CONFIRM, {}).items():
        for block in blocks:
            if (again := read_json(folder / measured(CONFIRM, one, block)).get("chosen")) is not None:
                return str(again["sampling"])
    return next(iter(race.samplings))


def measured_slots(race: Race, folder: Path = Path()) -> Partition | None:
    """Slots of the control's first training; None where no variant draws from slots, or that training collapsed."""
    known = json_or_none(folder / SLOTS) if race.over_slots else None
    return None if known is None or known["slots"] is None else Partition(known["slots"], "slots")


def with_chosen_sampling(standing: Standing) -> dict[str, Any] | None:
    """Relative change of fresh trainings' FID by the chosen way of sampling; None where that is the race's first."""
    if standing.sampling == next(iter(standing.race.samplings)) or CONFIRM not in standing.done:
        return None
    changes: dict[str, list[float]] = {"winner": [], "control": []}
    for rung in (CONFIRM, FURTHER):
        for place, one in zip(changes, standing.pair, strict=True):
            for block in standing.done.get(rung, {}).get(one, {}):
                document = read_json(measured(rung, one, block))
                if document["collapsed"] is None:
                    changes[place].append(math.log(document["chosen"]["fid"] / document["fid"]))
    return {place: math.expm1(fmean(logs)) for place, logs in changes.items() if logs}


def recipe_document(standing: Standing) -> dict[str, Any]:
    """Sections of params.yaml for the best bet."""
    race, recipe = standing.race, standing.recipe
    experts = race.arms[standing.bet.arm].experts
    sampling = race.samplings[standing.sampling].model_dump(mode="json", exclude_defaults=True)
    if experts is None:
        return {"recipes": {"base": section(recipe)}, "sampling": sampling}
    groups = {"ids": list(range(experts.count)), "kind": experts.kind, "min_ratio": experts.groups.min_ratio}
    plan = plan_of_experts(experts, recipe)
    a_group = plan.recipe.model_copy(update={"images": plan.recipe.images // experts.count})
    recipes = {"base": section(base_recipe(experts, recipe)), "expert": section(a_group)}
    return {"recipes": recipes, "groups": groups, "sampling": sampling}


def section(recipe: Recipe) -> dict[str, Any]:
    """Convert a recipe to its section of params.yaml."""
    return recipe.model_dump(mode="json", exclude_defaults=True) | {"images": recipe.images}
