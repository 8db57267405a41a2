"""What the page of the whole pipeline says: its statements, its table of variants, its captions, its notes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from unequal.measures.endpoints import endpoints
from unequal.measures.loss_profile import LossProfile
from unequal.report.comparisons import TRAINING_ON, Comparison, Pairing, in_order, pairings
from unequal.report.differences import fid_differences, loss_differences
from unequal.report.findings import PipelineFindings
from unequal.report.groups import CAPTION as GROUPS_CAPTION
from unequal.report.loss_statements import slot_statements, spread_of_losses
from unequal.report.page import Table
from unequal.report.profiles import SLOTS_CAPTION, SPACES_CAPTION
from unequal.report.readiness import Readiness, final_slope
from unequal.report.replicated import SAME_WITHIN, are_judged, judged, judged_losses, mean_fids
from unequal.report.statements import Section
from unequal.report.tables import Change, Variant, label, plus_minus, with_prefix

TITLE = "Timesteps are not equal: what this run shows"

#: Picture → heading and caption, in the order of the page.
CAPTIONS = {
    "loss_profile": (
        "Loss over timesteps",
        "Mean squared error of the predicted noise, in bins of equal width on the log scale, with ± 1 standard error. "
        "The floor is the loss of the best possible denoiser of the training images: no network loses less on them, "
        "and one that reaches it has memorised them; for held-out images it is no bound. Near the data it falls out "
        "of the picture. Shaded and numbered: the slots that were trained on inside and drawn from.",
    ),
    "loss_spaces": SPACES_CAPTION,
    "slots": SLOTS_CAPTION,
    "loss_changes": (
        "What further training changed",
        "Training loss of every further model as a multiple of the base's, on the same images and noise, with ± 1 "
        "paired standard error where a model was trained on all timesteps. "
        "The thick part of a slot model's line is the slot that it was trained on inside.",
    ),
    "interference": (
        "Interference of slots",
        "Change of a slot's summed training loss after the base was trained on inside one slot, in percent ± standard "
        "error of paired draws. Framed: the slot that was trained on. Blue is lower loss, red is higher.",
    ),
    "samplers": (
        "Timestep samplers",
        "How often each recipe draws a timestep, as a multiple of uniform drawing; "
        "one that draws uniformly stands at 1 ×.",
    ),
    "groups": GROUPS_CAPTION,
    "fid_training_flops": (
        "FID against training FLOPs",
        "Mean ± standard deviation over sampling seeds. Training FLOPs are three times the multiply–accumulates of "
        "all images seen, those of the models trained on from included.",
    ),
    "fid_sampling_flops": (
        "FID against sampling FLOPs",
        "Mean ± standard deviation over sampling seeds. Multiply–accumulates of all sampling steps of one image.",
    ),
    "samples": (
        "Samples from the same noise",
        "Every column starts from one noise, every row is one variant; the last row shows real images.",
    ),
}

#: Figures of the columns behind the name.
SCORES = ("fid", "fid_half", "kid", "precision", "recall")
COLUMNS = (
    "variant",
    "FID",
    "FID of half the samples",
    "KID",
    "precision",
    "recall",
    "images seen",
    "training FLOPs",
    "sampling FLOPs an image",
    "parameters",
    "sampling steps per expert",
)

COSTS_NOTE = (
    "FID and KID are on the scale of the features named below: only figures of the same features compare. "
    "FID of fewer samples is larger: how much, the first half of each seed's shows. Precision is the share of samples "
    "within the real images' neighbourhoods, recall that of real images within the samples'. "
    "FLOPs are multiply–accumulates without attention's two products. Images and training FLOPs count from "
    "the first random weights on; those of experts are summed over all groups, the base's counted once. "
    "Sampling steps are given from the data end to the noise end; a single model takes all."
)


#: What one training of each model can show.
THIS_RUN = (
    "Each model was trained once: the figures are of this run, and how much a second training would differ is not in "
    "them. In brackets the resolution of this run: the 95 % interval over sampling seeds (FID) or draws (losses)."
)
#: What several trainings show.
ALL_TRAININGS = (
    "Everything was trained {count} times, each time with another seed, which also split the data anew. In brackets "
    "the 95 % interval over trainings; FIDs are geometric means over them. “Better” and “worse” have p < 0.05 by "
    "Holm's correction over all methods, “the same” is within {losses:.0%} of a loss or {fid:.0%} of FID. Where "
    "trainings scatter too much to see as little as that, a smaller difference than they show is “not testable here”; "
    "what remains is undecided."
)
#: Heading and lead of what the methods came to, ranked or not.
RANKED = ("What paid in this run?", "Best first, by the relative difference of FID from the control.")
UNRANKED = ("What came out?", "Unranked, in the order of the variants.")


def sections(found: PipelineFindings, recipes: Sequence[str], changes: Mapping[str, Sequence[Change]]) -> list[Section]:
    """What the page says before its tables: where the base stands, what each method came to, what the losses show.

    Args:
        found: results of the run.
        recipes: further ones that train the base on.
        changes: split → changes of the losses of slots.
    """
    base = readiness(found)
    pairs = pairings(found.variants, recipes)
    scale = [TRAINING_ON] if TRAINING_ON.method in found.variants else []
    judging = base.ready and are_judged(found.replicas)
    compared = comparisons(found, [*scale, *pairs], judging)
    told = [one.statement() for one in in_order(compared[len(scale) :], base.ready)]
    losses = [spread_of_losses(LossProfile.of(found.losses["base"]["train"])), *slot_statements(changes)]
    first = [*base.statements(), *(replace(one.statement(), drawn=None) for one in compared[: len(scale)])]
    return [
        Section("Is the base ready?", "", first),
        *([Section(*headed(base.ready, len(found.replicas.seeds) if judging else 1), told)] if told else []),
        Section("How unequal are timesteps?", "± is the standard error over draws of images and noise.", losses),
    ]


def headed(ranked: bool, trainings: int) -> tuple[str, str]:
    """Heading and lead of what each method came to, by so many trainings that are judged, or by one."""
    heading, order = RANKED if ranked else UNRANKED
    if trainings == 1:
        return heading, f"{order} {THIS_RUN}"
    same = {"losses": SAME_WITHIN["loss_over_timesteps"], "fid": SAME_WITHIN["fid"]}
    return heading.replace("this run", "these runs"), f"{order} {ALL_TRAININGS.format(count=trainings, **same)}"


def readiness(found: PipelineFindings) -> Readiness:
    """Where the base stands between noise and real images, and whether its loss still falls."""
    noise, real = (found.references[f"{kind}_against_real"]["fid"] for kind in ("noise", "real"))
    return Readiness(found.variants["base"].fid, noise, real, final_slope(found.base_training))


def comparisons(found: PipelineFindings, pairs: Sequence[Pairing], judging: bool) -> list[Comparison]:
    """Methods beside their controls, by all endpoints that both have: of this run, or judged by all trainings."""
    names, variants = [(one.method, one.control) for one in pairs], found.variants
    if judging:
        fids = judged(found.replicas, "fid", names)
        losses = judged_losses(found.replicas, names)
        variants = {name: replace(one, fid=mean_fids(found.replicas)[name]) for name, one in variants.items()}
    else:
        fids, compared = fid_differences(found.seed_fids, names), endpoints(found.schedule)
        losses = [loss_differences(compared, found.errors, *pair) for pair in names]
    return [
        Comparison(variants[one.method], variants[one.control], fid, held_out, one.budget)
        for one, fid, held_out in zip(pairs, fids, losses, strict=True)
    ]


def scores_and_costs(variants: Sequence[Variant], references: Mapping[str, Any]) -> Table:
    """The table of all variants, and the two ends of the scale (the content of results/fid/reference.json)."""
    rows = [variant_row(variant) for variant in variants]
    return Table("Scores and costs", COLUMNS, rows, COSTS_NOTE + idle_note(variants), reference_rows(references))


def idle_note(variants: Sequence[Variant]) -> str:
    """Which experts take no part in sampling, so that no score speaks of them; empty where all do."""
    return "".join(
        f" No sampling step falls to expert {', '.join(map(str, variant.idle))} of {label(variant.name)}: "
        "its scores say nothing of what was learned there."
        for variant in variants
        if variant.idle
    )


def variant_row(variant: Variant) -> tuple[str, ...]:
    """A row of the table of scores."""
    costs = (variant.images_seen, variant.training_flops, variant.sampling_flops, variant.parameters)
    scores = ((getattr(variant, score), getattr(variant, f"{score}_sd", None)) for score in SCORES)
    told = ("–" if mean is None else plus_minus(mean, spread) for mean, spread in scores)
    return (label(variant.name), *told, *map(with_prefix, costs), ", ".join(map(str, variant.steps)))


def reference_rows(references: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The two ends of the scale."""
    ends = (
        ("real_against_real", f"real images, {references['real_sets']}"),
        ("noise_against_real", "noise against real images"),
    )
    return [scale_row(name, references[key]) for key, name in ends]


def scale_row(name: str, scores: Mapping[str, Any]) -> tuple[str, ...]:
    """What is no variant, with its scores and at no cost."""
    return (name, *(plus_minus(scores[score], None) for score in SCORES), *5 * ("–",))
