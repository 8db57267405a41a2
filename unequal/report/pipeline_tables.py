"""Tables of a pipeline run, as rows of text for the page and as rows of CSV files."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.loss_profile import (
    SPACES,
    LossProfile,
    excess_profile,
    relative_change,
    space_factor,
)
from unequal.report.formatting import label, percent, plus_minus, with_prefix
from unequal.report.page import Table
from unequal.report.pipeline_pictures import Losses
from unequal.report.results import EXPERTS, JOINT, Change, RunResults, Variant
from unequal.timesteps.groups import mean_limit
from unequal.training.timestep_files import GroupTable

SLOT_CHANGE_COLUMNS = ("split", "finetuned_slot", "slot", "change_percent", "stderr_percent")
#: Scores in the columns after the name.
SCORES = ("fid", "fid_half", "kid", "precision", "recall")
SCORE_COLUMNS = ("variant", "FID", "FID of half the samples", "KID", "precision", "recall")
SCORES_NOTE = (
    "FID and KID compare only figures of the same features, named under Conditions. FID of fewer samples is larger; "
    "the column of half the samples shows by how much. Precision is the share of samples "
    "within the real images' neighbourhoods, recall that of real images within the samples'."
)
COST_COLUMNS = (
    "variant",
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
    "Parameters on disk are those of all experts together; a step takes those of one, in the mean over sampling steps, "
    "which is what paper 3 prints. "
    "Sampling steps run from the data end to the noise end; a single model takes all."
)
LOSSES_NOTE = (
    "Largest over smallest: mean training losses of single timesteps, on the same images and noise for every "
    "model. Means over all timesteps ± standard error over draws. Excess: training loss minus the optimal-denoiser "
    "loss on the training images."
)
#: Space of a loss → its name in text.
SYMBOLS = {"epsilon": "ε", "v": "v", "x0": "x0"}
#: Kind of groups → its description.
KINDS = {
    "snr": "equal intervals of SNR in dB, limits rising towards the noise",
    "constant": "equal intervals of SNR in dB, one limit for all",
    "uniform_increasing": "equal size, limits rising towards the noise",
    "uniform_decreasing": "equal size, limits falling towards the noise",
    "excess_loss": "equal sums of the base's excess loss, the highest limit where its mean is highest",
    "timestep_clusters": "clusters of the least spread in t, one limit for all",
    "log_snr_clusters": "clusters of the least spread in log-SNR, one limit for all",
}
GROUP_COLUMNS = ("group", "timesteps", "SNR in dB", "limit of FLOPs", "pruned model", "sampling steps")
GROUPS_NOTE = (
    "Groups count from 0 (data) on. Limits and pruned models as shares of the base's FLOPs. "
    "Scores do not cover a group without a sampling step."
)
EXPERT_COLUMNS = (
    "experts",
    "group",
    "images inside, joint model",
    "images inside, expert",
    "held-out loss, joint model",
    "held-out loss, expert",
    "change",
)
EXPERT_NOTE = (
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
)
SEARCHES_NOTE = (
    "Unweighted training loss in the group, after the search's own fine-tuning and before further training. The "
    "smallest of many losses is biased by the choice, so the best scheme and the best of as many random schemes are "
    "measured again on fresh draws. Change: from the random one. One search a group; the scatter between searches is "
    "not known."
)

REQUEST_COLUMNS = (
    "group",
    "requests",
    "seconds a round",
    "tokens of the prompt",
    "tokens of the answer",
    "USD a round",
)
REQUESTS_NOTE = (
    "Means a round, refused answers included. Tokens as the endpoint counts them; USD by the prices of the settings."
)


def fid_rows(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Rows of the FID table's CSV; unknown values are empty, and several steps are separated by blanks."""
    rows: list[dict[str, Any]] = [{"variant": variant.name} | asdict(variant) for variant in variants]
    return [
        {key: value for key, value in row.items() if key != "name"} | {"steps": " ".join(map(str, row["steps"]))}
        for row in rows
    ]


def slot_change_rows(by_split: Mapping[str, Sequence[Change]]) -> list[dict[str, Any]]:
    """Rows of a CSV with the changes of the loss by slot, in per cent."""
    return [
        dict(
            zip(
                SLOT_CHANGE_COLUMNS,
                (split, one.finetuned, one.slot, 100 * one.change, 100 * one.stderr),
                strict=True,
            )
        )
        for split, found in by_split.items()
        for one in found
    ]


def scores_table(variants: Sequence[Variant], references: Mapping[str, Any]) -> Table:
    """Table of all variants, and of the two ends of the scale (`references`: content of results/fid/reference.json)."""
    rows = [score_row(variant) for variant in variants]
    return Table("Scores", SCORE_COLUMNS, rows, SCORES_NOTE + idle_note(variants), reference_rows(references))


def costs_table(variants: Sequence[Variant]) -> Table:
    """Table of what each variant costs in training, in sampling and on disk."""
    return Table("Costs", COST_COLUMNS, [cost_row(variant) for variant in variants], COSTS_NOTE)


def idle_note(variants: Sequence[Variant]) -> str:
    """Note on experts without a sampling step, which no score covers; empty: there are none."""
    return "".join(
        f" No sampling step falls to expert {', '.join(map(str, variant.idle))} of {label(variant.name)}: "
        "its scores do not cover them."
        for variant in variants
        if variant.idle
    )


def score_row(variant: Variant) -> tuple[str, ...]:
    """Row of a variant in the table of scores."""
    scores = ((getattr(variant, score), getattr(variant, f"{score}_sd", None)) for score in SCORES)
    return (label(variant.name), *("–" if mean is None else plus_minus(mean, spread) for mean, spread in scores))


def cost_row(variant: Variant) -> tuple[str, ...]:
    """Row of a variant in the table of costs."""
    costs = [variant.images_seen, variant.training_flops, variant.sampling_flops, variant.parameters]
    costs.append(variant.parameters if variant.parameters_per_step is None else round(variant.parameters_per_step))
    return (label(variant.name), *map(with_prefix, costs), ", ".join(map(str, variant.steps)))


def reference_rows(references: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Rows of real images and noise, the two ends of the scale."""
    return [
        reference_row(f"real images, {references['real_sets']}", references["real_against_real"]),
        reference_row("noise against real images", references["noise_against_real"]),
    ]


def reference_row(name: str, scores: Mapping[str, Any]) -> tuple[str, ...]:
    """Row of scores for images that no variant samples."""
    return (name, *(plus_minus(scores[score], None) for score in SCORES))


def losses_table(losses: Losses, floor: np.ndarray, schedule: NoiseSchedule) -> Table:
    """Table of each model's ratio of largest to smallest loss, mean losses, and excess over the optimal denoiser."""
    factors = [space_factor(space, schedule) for space in SPACES]
    columns = ["model", *(f"largest over smallest, {symbol}" for symbol in SYMBOLS.values())]
    columns += ["mean training loss, ε", "mean held-out loss, ε", *(["mean excess, ε"] if floor.size else [])]
    rows = []
    for name, splits in losses.items():
        profiles = [LossProfile.of(splits["train"]), LossProfile.of(splits["holdout"])]
        profiles += [excess_profile(splits["train"], floor)] if floor.size else []
        ratios = [with_prefix(profiles[0].scaled(factor).largest_over_smallest) for factor in factors]
        rows.append((label(name), *ratios, *(plus_minus(*mean_of(profile)) for profile in profiles)))
    return Table("Losses", columns, rows, LOSSES_NOTE)


def mean_of(profile: LossProfile) -> tuple[float, float]:
    """Mean over timesteps and its standard error."""
    return float(profile.mean.mean()), float(np.sqrt((profile.stderr**2).sum()) / len(profile.stderr))


def groups_table(groups: GroupTable, shares: Sequence[float], sampling_steps: Sequence[int]) -> Table:
    """Table with one row per group.

    Args:
        groups: groups of timesteps, with their limits.
        shares: FLOPs of each group's pruned model as a share of the base's.
        sampling_steps: number of sampling steps of each group; empty: no experts were scored.
    """
    schedule, found = NoiseSchedule.named(groups.schedule, groups.timesteps, groups.shift), groups.with_limits
    rows = [
        (
            str(number),
            f"{group.range.first} – {group.range.last}",
            " … ".join(f"{float(schedule.snr_db[t]):.1f}".replace("-", "−") for t in group.range),
            plus_minus(group.limit_ratio, None),
            plus_minus(shares[number], None),
            str(sampling_steps[number]) if sampling_steps else "–",
        )
        for number, group in enumerate(found)
    ]
    kind = f"Made by: {KINDS[groups.kind]}. Mean limit over timesteps: {mean_limit(found):.3g}. "
    return Table("Groups of timesteps", GROUP_COLUMNS, rows, kind + GROUPS_NOTE)


def experts_table(found: RunResults) -> Table:
    """Table with one row per expert: its images and its loss, next to the joint model's."""
    rows = [
        expert_row(found, experts, number) for experts, seen in found.experts.items() for number in range(len(seen))
    ]
    return Table("Experts, group by group", EXPERT_COLUMNS, rows, EXPERT_NOTE)


def expert_row(found: RunResults, experts: str, number: int) -> tuple[str, ...]:
    """Row that compares a group's expert with the joint model."""
    group, joint = found.groups.with_limits[number].range, found.joint
    assert joint is not None  # the table is made only then
    seen, share = found.experts[experts][number], group.length / found.schedule.timesteps
    images = share * (joint.own + joint.inherited), seen.own + share * seen.inherited
    before, after = (found.losses[model]["holdout"][group.slice] for model in (JOINT, experts))
    change, error = relative_change(before, after)
    return (
        label(experts.removeprefix(EXPERTS)),
        str(number),
        *map(with_prefix, images),
        *(f"{losses.mean():.3g}" for losses in (before, after)),
        f"{plus_minus(100 * change, 100 * error, signed=True)} %",
    )


def searches_table(searches: Mapping[int, Mapping[str, Any]]) -> Table:
    """Table with one row per group that was pruned by a search.

    Args:
        searches: group → figures of its pruned network.
    """
    rows = [search_row(*one) for one in searches.items()]
    return Table("Searches for what to prune", SEARCH_COLUMNS, rows, SEARCHES_NOTE)


def requests_table(searches: Mapping[int, Mapping[str, Any]]) -> Table | None:
    """Table with one row per group whose search asked a language model; None: no search did.

    Args:
        searches: group → figures of its pruned network.
    """
    asked = {group: found["language_model"] for group, found in searches.items() if found.get("language_model")}
    means = [f"{name}_a_round" for name in ("seconds", "prompt_tokens", "completion_tokens", "usd")]
    rows = [(str(group), str(one["requests"]), *(known(one[mean]) for mean in means)) for group, one in asked.items()]
    return Table("Requests to the language model", REQUEST_COLUMNS, rows, REQUESTS_NOTE) if rows else None


def known(value: float | None) -> str:
    """Format a number to three digits; an unknown number is a dash."""
    return "–" if value is None else plus_minus(value, None)


def search_row(group: int, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Row of a search as text."""
    fresh, control = found["fresh_loss"], found.get("control_fresh_loss")
    random = ("–", "–") if control is None else (f"{control:.3g}", percent(fresh / control - 1, sign=True))
    return str(group), str(found["candidates"]), f"{found['loss']:.3g}", f"{fresh:.3g}", *random
