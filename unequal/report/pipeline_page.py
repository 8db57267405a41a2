"""Sections and captions of the pipeline's page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from unequal.measures.loss_profile import (
    LossProfile,
    endpoints,
)
from unequal.report.comparisons import (
    FURTHER_TRAINING,
    SAME_WITHIN,
    Comparison,
    Pairing,
    are_judged,
    fid_differences,
    in_order,
    judged,
    judged_losses,
    loss_differences,
    mean_fids,
    pairings,
)
from unequal.report.pipeline_statements import Readiness, final_slope, slot_statements, spread_of_losses
from unequal.report.results import Change, PipelineFindings
from unequal.report.statements import Section

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
    "loss_spaces": (
        "Losses in three spaces",
        "The same losses as mean squared errors of ε, of v and of x0, which differ by a factor of the timestep alone. "
        "The base on training and held-out images, the floor of its training loss and what it loses beyond (excess), "
        "± 1 standard error; grey: the other models' training loss. What falls far below the base is cut off.",
    ),
    "slots": (
        "Slots of equal loss and of equal excess loss",
        "Either set splits all timesteps into ranges with the same sum of the base's training loss, or of its excess "
        "over the optimal-denoiser loss: the loss that training can still remove.",
    ),
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
    "groups": (
        "Groups of timesteps and their FLOPs",
        "Above: signal-to-noise ratio. Below: the share of the base's FLOPs that each timestep deserves by its SNR "
        "([3], eq. 3), the limit of its group, and what the group's pruned model takes.",
    ),
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
    scale = [FURTHER_TRAINING] if FURTHER_TRAINING.method in found.variants else []
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
