"""Tables of the study tdc, with the columns of paper 3's."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies.tdc.findings import LONGER, Found, PlanOutcome
from unequal.reporting.page import Table
from unequal.reporting.tables import mean_and_sd, with_prefix

COLUMNS = ("plan", "FID", "FLOPs", "of the base's", "parameters", "images in all", "training FLOPs")
NOTE = (
    "FID: mean ± standard deviation over training seeds, from one base. FLOPs: multiply–accumulates of one step, as "
    "trained, mean over all timesteps; parameters likewise, and in brackets those of all experts together. Images and "
    "training FLOPs hold the base's; what a proxy's search cost is not in them."
)


def main_table(found: Found, heading: str) -> Table:
    """The base, the shared plans and the question's own."""
    rows = [base_row(found), *(row(found, one) for one in found.outcomes.values())]
    return Table(heading, COLUMNS, rows, NOTE)


def base_row(found: Found) -> tuple[str, ...]:
    """The base as it stands."""
    facts = found.base_training
    return (
        "base",
        f"{found.base_fid:.2f}",
        with_prefix(facts["macs"]),
        "1",
        with_prefix(facts["parameters"]),
        with_prefix(facts["images_seen"]),
        with_prefix(facts["training_flops"]),
    )


def row(found: Found, outcome: PlanOutcome) -> tuple[str, ...]:
    """What a plan came to."""
    stored = f" ({with_prefix(outcome.mean('parameters'))})" if outcome.groups > 1 else ""
    return (
        outcome.label,
        mean_and_sd(outcome.fids),
        with_prefix(outcome.mean("macs_a_step")),
        f"{found.share(outcome):.3f}",
        with_prefix(outcome.mean("parameters_a_step")) + stored,
        with_prefix(outcome.mean("images")),
        with_prefix(outcome.mean("training_flops")),
    )


def seconds_table(found: Found) -> Table:
    """What the parts of a plan took (Table IV)."""
    rows = [
        (
            one.label,
            mean_and_sd([trial["pruning_seconds"] for trial in one.experts]),
            mean_and_sd([trial["training_seconds"] for trial in one.experts]),
            mean_and_sd([trial["pruning_seconds"] + trial["training_seconds"] for trial in one.experts]),
            f"{100 * one.mean('search_flops') / one.mean('training_flops'):.2g} %",
        )
        for one in found.outcomes.values()
        if one.name != LONGER
    ]
    columns = ("plan", "pruning, with the proxy's trials", "fine-tuning", "both", "search FLOPs, of all training FLOPs")
    note = "Seconds of stage 2, all groups one after the other; mean ± standard deviation over training seeds."
    return Table("Seconds", columns, rows, note)


def rounds_of(outcome: PlanOutcome) -> np.ndarray:
    """Loss of every candidate [seeds, rounds, candidates] of a proxy's rounds, the importance methods' start left out.

    Of outcomes with one group whose rounds have as many candidates each.
    """
    banks = [one["groups"][0]["pruning"]["bank"] for one in outcome.experts]
    return np.array([losses_by_round(bank) for bank in banks])


def losses_by_round(bank: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Losses of a bank's candidates, a list a round."""
    numbers = sorted({one["round"] for one in bank} - {0})
    return [[one["loss"] for one in bank if one["round"] == number] for number in numbers]


def starts_of(outcome: PlanOutcome) -> np.ndarray:
    """Loss of what the importance methods propose [seeds, methods]."""
    banks = [one["groups"][0]["pruning"]["bank"] for one in outcome.experts]
    return np.array([[one["loss"] for one in bank if one["round"] == 0] for bank in banks])


def rounds_table(outcome: PlanOutcome) -> Table:
    """The proxy's candidates, round by round (Fig. 5)."""
    losses, starts = rounds_of(outcome), starts_of(outcome)
    best = np.minimum.accumulate(losses.min(axis=2), axis=1)
    if starts.size:
        best = np.minimum(best, starts.min(axis=1)[:, None])
    rows = [
        (
            str(number + 1),
            mean_and_sd(losses[:, number].mean(axis=1).tolist()),
            f"{losses[:, number].std(axis=1, ddof=1).mean():.2g}" if losses.shape[2] > 1 else "",
            mean_and_sd(best[:, number].tolist()),
        )
        for number in range(losses.shape[1])
    ]
    columns = ("round", "loss of the candidates", "spread within a round", "least loss so far")
    note = "Loss before any fine-tuning, mean ± standard deviation over the seeds of the proxy."
    return Table("The proxy, round by round", columns, rows, note)


def plan_rows(found: Found) -> list[dict[str, Any]]:
    """Every training's figures as rows of a CSV."""
    return [
        {
            "plan": one.name,
            "seed": trial["seed"],
            "fid": trial["fid_mean"],
            "kid": trial["kid_mean"],
            "macs_a_step": experts["macs_a_step"],
            "parameters_a_step": experts["parameters_a_step"],
            "parameters": experts["parameters"],
            "images": experts["images"],
            "training_flops": experts["training_flops"],
            "search_flops": experts["search_flops"],
            "groups": one.groups,
            "groups_without_a_step": one.unsampled,
        }
        for one in found.outcomes.values()
        for trial, experts in zip(one.trials, one.experts, strict=True)
    ]
