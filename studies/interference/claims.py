"""Verdicts on what training on some timesteps does to the losses of the others."""

from itertools import pairwise

import numpy as np

from studies.interference.findings import STEPS, MeanChange, Series, TrainedOn, attention, mean_change, summarise
from unequal.measures.loss_profile import weighted_change
from unequal.reporting.tables import changes, label
from unequal.reporting.verdicts import SEVERAL, Evidence, Verdict, decide, tally

#: Sampler → the end of the range that it draws more often, and the other one.
ENDS = {"near_noise": ("near the noise", "near the data"), "near_data": ("near the data", "near the noise")}
ONE_TRAINING = "standard errors over the draws of the profile; one training seed"


def verdicts(found: TrainedOn) -> list[Verdict]:
    """Verdicts on learning rates and samplers."""
    rates = [rates_matter(found)] if len(found.slot_recipes) > 1 else []
    tilted = [name for name, kind in found.kinds.items() if kind in ENDS]
    stratified = [name for name, kind in found.kinds.items() if kind == "stratified"]
    return [
        *(retraining_trades(found, name) for name in tilted),
        *(all_slots_improve(found, name) for name in stratified),
        *(neglected_lag(found, name) for name in tilted),
        *rates,
    ]


def retraining_trades(found: TrainedOn, name: str) -> Verdict:
    """Paper 1, Fig. 1 d to g: what is trained on falls, what is not rises."""
    summary = summarise(found.series(name), found.base, found.slots)
    here, there = ENDS[found.kinds[name]]
    favoured, neglected = required(summary.favoured), required(summary.neglected)
    return Verdict(
        f"{name}_trades",
        1,
        f"Training on with more timesteps {here} lowers the loss there and raises it {there}",
        decide([Evidence(-favoured.value, favoured.stderr), Evidence(neglected.value, neglected.stderr)]),
        {"favoured_percent": 100 * favoured.value, "neglected_percent": 100 * neglected.value},
        f"slots that are drawn more often than uniformly {favoured.percent}, the others {neglected.percent}, "
        f"of the base's loss on average, after {summary.training.steps} steps",
        f"both mean changes of the slots' training losses against 2 paired standard errors; {SEVERAL}; {ONE_TRAINING}",
    )


def neglected_lag(found: TrainedOn, name: str) -> Verdict:
    """Whether neglected slots end worse than they would have by uniform training of the same length."""
    series, (here, there) = found.series(name), ENDS[found.kinds[name]]
    control = found.losses[found.control]["train"]
    lag = required(mean_change(series, control, found.slots, attention(series, found.slots) < 0))
    return Verdict(
        f"{name}_neglects",
        None,
        f"More timesteps {here} leave the loss {there} above that after uniform training for as long",
        decide([Evidence(*lag)]),
        {"neglected_percent": 100 * lag.value},
        f"slots that are drawn less often than uniformly {lag.percent} of their loss after {label(found.control)}",
        f"mean difference of the slots' training losses against 2 paired standard errors; {ONE_TRAINING}",
    )


def all_slots_improve(found: TrainedOn, name: str) -> Verdict:
    """Paper 1's conclusion: losses of all scales in every batch fall together."""
    rows = changes(0, found.base, found.losses[name]["train"], found.slots)
    evidence = [Evidence(-one.change, one.stderr) for one in rows]
    shown = (f"{one.slot}: {MeanChange(one.change, one.stderr).percent}" for one in rows)
    return Verdict(
        f"{name}_lowers_all",
        1,
        "Batches that draw evenly from all slots lower the losses of all scales together",
        decide(evidence),
        tally(evidence) | {f"slot_{one.slot}_percent": 100 * one.change for one in rows},
        f"change of the base's loss, slot by slot: {', '.join(shown)}",
        f"change of each slot's training loss against 2 paired standard errors; {SEVERAL}; {ONE_TRAINING}",
    )


def rates_matter(found: TrainedOn) -> Verdict:
    """Whether a step harms the other slots the more, the higher the learning rate."""
    series = [found.series(name) for name in found.slot_recipes]
    evidence = [Evidence(*growth(low, high, found)) for low, high in pairwise(series)]
    summaries = [summarise(one, found.base, found.slots) for one in series]
    means = [required(one.neglected).over(one.training.steps / STEPS) for one in summaries]
    shown = (f"lr {one.training.lr:g}: {mean.percent}" for one, mean in zip(series, means, strict=True))
    return Verdict(
        "harm_grows_with_rate",
        None,
        "A step inside one slot harms the other slots the more, the higher the learning rate",
        decide(evidence),
        tally(evidence) | {f"{one.name}_percent": 100 * mean.value for one, mean in zip(series, means, strict=True)},
        f"mean change of the other slots' losses in {STEPS} steps: {', '.join(shown)}",
        "change per step of neighbouring learning rates, on the same slots and draws, against 2 paired standard "
        f"errors; {SEVERAL}; {ONE_TRAINING}",
    )


def growth(low: Series, high: Series, found: TrainedOn) -> tuple[float, float]:
    """By how much the neglected slots' mean change per step differs between two series, and its standard error."""
    parts = []
    for series, sign in ((high, 1), (low, -1)):
        chosen = attention(series, found.slots) < 0
        parts.append(sign * chosen / chosen.sum() / series.training.steps)
    return weighted_change(found.base, [*high.losses, *low.losses], found.slots, np.concatenate(parts))


def required(estimate: MeanChange | None) -> MeanChange:
    """An estimate of slots that there must be: tilted samplers and single slots favour some and neglect others."""
    if estimate is None:
        raise ValueError("a series that neither favours nor neglects a slot")
    return estimate
