"""Tables of a pipeline run, as rows of text for the page and as rows of CSV files."""

from typing import Any

import numpy as np

from unequal.evaluation.loss_profile import SPACES, LossProfile, excess_profile, relative_change, space_factor
from unequal.report.figures import Pruning, References, ScaleEnd
from unequal.report.formatting import label, percent, plus_minus, with_prefix
from unequal.report.page import Table
from unequal.report.results import EXPERTS, JOINT, SPLITS, RunResults
from unequal.timesteps.groups import mean_limit
from unequal.timesteps.partition import TimestepSet

#: Columns of tables/interference.csv.
INTERFERENCE = ("split", "finetuned_slot", "slot", "change_percent", "stderr_percent")
#: Scores in the columns after the name.
SCORES = ("fid", "fid_half", "kid", "precision", "recall")
SCORE_COLUMNS = ("model", "FID", "FID of half the samples", "KID", "precision", "recall")
SCORES_NOTE = (
    "FID and KID compare only figures of the same features, named under Conditions. FID of fewer samples is larger; "
    "the column of half the samples shows by how much. Precision is the share of samples "
    "within the real images' neighbourhoods, recall that of real images within the samples'."
)
COST_COLUMNS = (
    "model",
    "images seen",
    "training FLOPs",
    "sampling FLOPs an image",
    "parameters on disk",
    "parameters a step",
    "sampling steps per expert",
)
COSTS_NOTE = (
    "FLOPs are multiply–accumulates without attention's two products. Images and training FLOPs count from "
    "initialization; experts' are summed over all groups, with the base's counted once. "
    "Parameters on disk are those of all experts together; a step takes those of one, in the mean over sampling steps. "
    "Sampling steps run from the data end to the noise end; a single model takes all. No score covers an expert "
    "without a sampling step."
)
LOSSES_NOTE = (
    "Largest over smallest: mean training losses of single timesteps, on the same images and noise for every "
    "model. Means over all timesteps ± standard error over draws. Excess: training loss minus the optimal-denoiser "
    "loss on the training images."
)
#: Space of a loss → its name in text.
SYMBOLS = {"epsilon": "ε", "v": "v", "x0": "x0"}
SLOT_COLUMNS = ("slot", "timesteps", "SNR in dB", "share of the loss", "own training loss", "own held-out loss")
SLOTS_NOTE = (
    "Share: of the base's training loss. Own loss: change of the slot's loss where the base was fine-tuned on it, ± "
    "standard error of paired draws."
)
GROUP_COLUMNS = ("group", "timesteps", "SNR in dB", "limit of FLOPs", "pruned model", "sampling steps")
GROUPS_NOTE = "Groups count from 0 (data) on. Limits and pruned models as shares of the base's FLOPs."
EXPERT_COLUMNS = (
    "experts",
    "group",
    "images inside, joint model",
    "images inside, expert",
    "held-out loss, joint model",
    "held-out loss, expert",
    "change",
)
EXPERTS_NOTE = (
    "Images inside: training images at timesteps of the group, the base's included; for models of all timesteps, the "
    "group's share of them. Mean held-out loss of ε in the group; change ± standard error of paired draws, one "
    "training each. The joint model is the base, trained further with the unpruned experts' total budget."
)
SEARCH_COLUMNS = (
    "group",
    "schemes tried",
    "loss of the best",
    "on fresh draws",
    "best of as many random ones, on fresh draws",
    "change",
    "requests to a language model",
)
SEARCHES_NOTE = (
    "Unweighted training loss in the group, after the search's own fine-tuning and before further training. The "
    "smallest of many losses is biased by the choice, so the best scheme and the best of as many random schemes are "
    "measured again on fresh draws. Change: from the random one. One search a group."
)


def tables(results: RunResults) -> list[Table]:
    """All tables of the page behind that of the models; those of absent methods are left out."""
    found = [scores_table(results), costs_table(results), losses_table(results)]
    found += [slots_table(results)] if results.slots is not None else []
    found += [groups_table(results)] if results.groups is not None else []
    found += [experts_table(results)] if JOINT in results.errors else []
    rows = [search_row(group, one) for group, one in results.prunings.items() if one.candidates is not None]
    found.append(Table("Searches for what to prune", SEARCH_COLUMNS, rows, SEARCHES_NOTE))
    return [table for table in found if table.rows]


def fid_rows(results: RunResults) -> list[dict[str, Any]]:
    """Rows of results/fid.csv; unknown values are empty."""
    return [
        {
            "model": name,
            **{score: getattr(one, f"{score}_mean") for score in SCORES},
            **{f"{score}_sd": one.spread(score) for score in SCORES},
            "images_seen": one.images_seen,
            "training_flops": one.training_flops,
            "training_seconds": round(results.seconds(name), 3),
            "sampling_flops": one.sampling_flops_per_image,
            "parameters": one.parameters,
        }
        for name, one in results.scores.items()
    ]


def interference_rows(results: RunResults) -> list[dict[str, Any]]:
    """Rows of changes of the loss by slot, in per cent."""
    return [
        dict(zip(INTERFERENCE, (split, one.finetuned, one.slot, 100 * one.change, 100 * one.stderr), strict=True))
        for split in SPLITS
        for one in results.slot_changes(split)
    ]


def scores_table(results: RunResults) -> Table:
    """Table of all models, and of the two ends of the scale."""
    rows = []
    for name in results.ranked:
        one = results.scores[name]
        rows.append((label(name), *(plus_minus(getattr(one, f"{key}_mean"), one.spread(key)) for key in SCORES)))
    return Table("Scores", SCORE_COLUMNS, rows, SCORES_NOTE, reference_rows(results.references))


def reference_rows(references: References) -> list[tuple[str, ...]]:
    """Rows of real images and noise, the two ends of the scale."""

    def row(name: str, end: ScaleEnd) -> tuple[str, ...]:
        return (name, *(plus_minus(getattr(end, score), None) for score in SCORES))

    real = row(f"real images, {references.real_sets}", references.real_against_real)
    return [real, row("noise against real images", references.noise_against_real)]


def costs_table(results: RunResults) -> Table:
    """Table of what each model costs in training, in sampling and on disk."""
    rows = []
    for name in results.ranked:
        one = results.scores[name]
        costs = one.images_seen, one.training_flops, one.sampling_flops_per_image, one.parameters
        steps = ", ".join(map(str, one.sampling_steps_per_expert))
        rows.append((label(name), *map(with_prefix, (*costs, round(one.parameters_per_step))), steps))
    return Table("Costs", COST_COLUMNS, rows, COSTS_NOTE)


def losses_table(results: RunResults) -> Table:
    """Table of each model's ratio of largest to smallest loss, mean losses, and excess over the optimal denoiser."""
    floor, factors = results.floor, [space_factor(space, results.schedule) for space in SPACES]
    columns = ["model", *(f"largest over smallest, {symbol}" for symbol in SYMBOLS.values())]
    columns += ["mean training loss, ε", "mean held-out loss, ε", *(["mean excess, ε"] if floor.size else [])]
    rows = []
    for name in results.in_order(results.errors):
        train, holdout = (results.losses(name, split) for split in SPLITS)
        profiles = [LossProfile.of(train), LossProfile.of(holdout)]
        profiles += [excess_profile(train, floor)] if floor.size else []
        ratios = [with_prefix(profiles[0].scaled(factor).largest_over_smallest) for factor in factors]
        rows.append((label(name), *ratios, *(plus_minus(*mean_of(profile)) for profile in profiles)))
    return Table("Losses", columns, rows, LOSSES_NOTE)


def mean_of(profile: LossProfile) -> tuple[float, float]:
    """Mean over timesteps and its standard error."""
    return float(profile.mean.mean()), float(np.sqrt((profile.stderr**2).sum()) / len(profile.stderr))


def place_of(results: RunResults, steps: TimestepSet) -> tuple[str, str]:
    """A range of timesteps, and its signal-to-noise ratios, as text."""
    decibels = [f"{float(results.schedule.snr_db[t]):.1f}".replace("-", "−") for t in (steps.first, steps.last)]
    return f"{steps.first} – {steps.last}", " … ".join(decibels)


def slots_table(results: RunResults) -> Table:
    """Table with one row a slot."""
    assert results.slots is not None
    shares = results.slots.shares_of(LossProfile.of(results.losses("base")).mean)
    own = {
        (split, one.slot): f"{plus_minus(100 * one.change, 100 * one.stderr, signed=True)} %"
        for split in SPLITS
        for one in results.slot_changes(split)
        if one.slot == one.finetuned
    }
    rows = [
        (
            str(number),
            *place_of(results, slot),
            percent(float(share)),
            *(own.get((split, number), "–") for split in SPLITS),
        )
        for number, (slot, share) in enumerate(zip(results.slots, shares, strict=True), start=1)
    ]
    return Table("Slots", SLOT_COLUMNS, rows, SLOTS_NOTE)


def groups_table(results: RunResults) -> Table:
    """Table with one row a group."""
    assert results.groups is not None
    groups = results.groups.with_limits
    experts = [one for name, one in results.scores.items() if name.startswith(EXPERTS)]
    steps = experts[0].sampling_steps_per_expert if experts else None
    rows = [
        (
            str(number),
            *place_of(results, group.range),
            plus_minus(group.limit_ratio, None),
            plus_minus(results.prunings[number].share_of_base, None) if number in results.prunings else "–",
            str(steps[number]) if steps else "–",
        )
        for number, group in enumerate(groups)
    ]
    kind = f"Made by groups.kind: {results.groups.kind}. Mean limit over timesteps: {mean_limit(groups):.3g}. "
    return Table("Groups of timesteps", GROUP_COLUMNS, rows, kind + GROUPS_NOTE)


def experts_table(results: RunResults) -> Table:
    """Table with one row an expert: its images and its loss, next to the joint model's."""
    experts = [name for name in results.errors if name.startswith(EXPERTS)]
    rows = [expert_row(results, name, number) for name in experts for number in results.group_numbers]
    return Table("Experts, group by group", EXPERT_COLUMNS, rows, EXPERTS_NOTE)


def expert_row(results: RunResults, experts: str, number: int) -> tuple[str, ...]:
    """Row that compares a group's expert with the joint model."""
    assert results.groups is not None
    group, joint = results.groups.with_limits[number].range, results.trained[JOINT]
    expert, share = results.trained[f"{experts}_group_{number}"], group.length / results.schedule.timesteps
    images = (
        share * (joint.images_seen + joint.inherited_images),
        expert.images_seen + share * expert.inherited_images,
    )
    before, after = (results.losses(model, "holdout")[group.slice] for model in (JOINT, experts))
    change, error = relative_change(before, after)
    return (
        label(experts.removeprefix(EXPERTS)),
        str(number),
        *map(with_prefix, images),
        *(f"{losses.mean():.3g}" for losses in (before, after)),
        f"{plus_minus(100 * change, 100 * error, signed=True)} %",
    )


def search_row(group: int, found: Pruning) -> tuple[str, ...]:
    """Row of a search as text."""
    fresh, control = found.fresh_loss, found.control_fresh_loss
    random = ("–", "–") if control is None else (f"{control:.3g}", percent(fresh / control - 1, sign=True))
    asked = "–" if found.language_model is None else str(found.language_model.requests)
    return str(group), str(found.candidates), f"{found.loss:.3g}", f"{fresh:.3g}", *random, asked
