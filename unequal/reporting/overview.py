"""What the page of the whole pipeline says: its table of variants, its captions, its notes."""

from collections.abc import Mapping, Sequence
from typing import Any

from unequal.reporting.groups import CAPTION as GROUPS_CAPTION
from unequal.reporting.page import Table
from unequal.reporting.profiles import SLOTS_CAPTION, SPACES_CAPTION
from unequal.reporting.tables import Variant, label, plus_minus, with_prefix

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


def scores_and_costs(variants: Sequence[Variant], references: Mapping[str, Any]) -> Table:
    """The table of all variants, and the two ends of the scale (the content of results/fid/reference.json)."""
    rows = [variant_row(variant) for variant in variants]
    return Table("Scores and costs", COLUMNS, rows, COSTS_NOTE + idle_note(variants), reference_rows(references))


def spread_note(seeds: int) -> str:
    """What the spreads of the verdicts hold, and what they do not."""
    many = f"{seeds} sampling seed{'' if seeds == 1 else 's'}"
    return (
        f"FIDs: mean ± standard deviation over {many} of models trained once. The spread between trainings is not in "
        "it, so a verdict speaks for these weights; differences within the spread are left undecided. "
        f"{'A standard deviation of so few is rough itself: verdicts near their limit are weak. ' * (1 < seeds < 5)}"
        "Verdicts go by FID; KID stands beside it as a second opinion."
    )


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
