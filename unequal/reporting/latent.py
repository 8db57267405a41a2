"""What the study of latents says: the autoencoder by itself, diffusion and experts in its latents, and the verdicts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json, read_npz
from unequal.measures.loss_profile import LossProfile
from unequal.ranges import read_groups
from unequal.reporting.claims import fid_rule, fid_verdicts, losses_differ
from unequal.reporting.conditions import scoring_conditions
from unequal.reporting.findings import read_images
from unequal.reporting.groups import groups_table
from unequal.reporting.overview import scores_and_costs
from unequal.reporting.page import Table
from unequal.reporting.tables import GroupLimit, Variant, plus_minus, steps_of_experts, with_prefix
from unequal.reporting.verdicts import Evidence, Verdict, decide

TITLE = "Diffusion in latents: timesteps are unequal there too"
NOTE = (
    "FIDs: mean ± standard deviation over sampling seeds of one training; verdicts speak for these weights. Losses and "
    "their floor are those of latents: the points of the best possible denoiser are the training images' latents."
)


@dataclass(frozen=True)
class Findings:
    """Results of the study.

    Attributes:
        losses: model → split → losses of all draws of latents, [T, n].
        floor: losses of the best possible denoiser of the training latents, [T, n], or [T, 0].
        schedule: of all models.
        groups: the content of artifacts/groups.json.
        group_shares: FLOPs of each group's pruned model as a share of the base's.
        variants: scores and costs.
        references: the two ends of the scale, and `reconstructions`, what the autoencoder alone does to real images.
        autoencoder: the content of results/metrics/autoencoder.json.
        samples: name → as many images, uint8 [n, C, H, W]; real ones, the same decoded again, every variant's.
        images: facts of the data set.
        base: those beside the base's scores.
    """

    losses: dict[str, dict[str, np.ndarray]]
    floor: np.ndarray
    schedule: NoiseSchedule
    groups: dict[str, Any]
    group_shares: list[float]
    variants: dict[str, Variant]
    references: dict[str, Any]
    autoencoder: dict[str, Any]
    samples: dict[str, np.ndarray]
    images: dict[str, Any]
    base: dict[str, Any]


def read_findings(
    find: Callable[[str], Path], schedule: NoiseSchedule, models: Sequence[str], variants: Sequence[str]
) -> Findings:
    """Read what the stages before the report have made; `find` turns a path into one that exists.

    Raises:
        UserError: something is missing or damaged.
    """
    images, profiles = PreparedData.open(find("artifacts/images")), find("artifacts/profiles")
    samples, scores, metrics = find("artifacts/samples"), find("results/fid"), find("results/metrics")
    grouping = read_groups(find("artifacts/groups.json"))
    pruned = [read_json(metrics / f"prune_expert_group_{one.group}.json") for one in grouping.groups]
    facts = {variant: read_json(scores / f"{variant}.json") for variant in variants}
    again = read_images(samples / "reconstructions.npy")
    reconstructions = read_json(scores / "reconstructions.json")
    shown = {"real images": np.array(images.holdout[: len(again)]), "decoded again": again}
    shown |= {variant: read_images(samples / f"{variant}.npy") for variant in variants}
    count = min(map(len, shown.values()))
    return Findings(
        losses={model: read_npz(profiles / f"{model}.npz", ["train", "holdout"]) for model in models},
        floor=read_npz(profiles / "floor.npz", ["train"])["train"],
        schedule=schedule,
        groups=grouping.model_dump(),
        group_shares=[figures["share_of_base"] for figures in pruned],
        variants={variant: Variant.of(variant, facts[variant]) for variant in variants},
        references=read_json(scores / "reference.json") | {"reconstructions": reconstructions},
        autoencoder=read_json(metrics / "autoencoder.json"),
        samples={name: pictures[:count] for name, pictures in shown.items()},
        images=images.facts,
        base=facts["base"],
    )


def verdicts(found: Findings) -> list[Verdict]:
    """Verdicts on what can be told of latents."""
    base = LossProfile.of(found.losses["base"]["train"])
    limits = GroupLimit.all_of(found.groups, found.group_shares)
    return [
        losses_differ(base.mean.tolist(), base.stderr.tolist()),
        decoding_costs_less(found),
        *fid_verdicts(found.variants, limits),
    ]


def decoding_costs_less(found: Findings) -> Verdict:
    """Whether the autoencoder is good enough for the diffusion that works in its latents."""
    base, decoded = found.variants["base"], found.references["reconstructions"]
    evidence = Evidence(base.fid - decoded["fid"], base.fid_sd)
    return Verdict(
        "decoding_costs_less",
        None,
        "What the autoencoder takes from real images weighs less than what diffusion in its latents misses",
        decide([evidence]),
        {"fid_base": base.fid, "fid_reconstructions": decoded["fid"]},
        f"FID {plus_minus(base.fid, base.fid_sd)} (base, decoded) against {plus_minus(decoded['fid'], None)} (real "
        "training images, decoded again)",
        fid_rule(base.seeds),
    )


def scores_table(found: Findings) -> Table:
    """Scores and costs, with what decoding alone scores between the two ends of the scale."""
    table = scores_and_costs(list(found.variants.values()), found.references)
    decoded = found.references["reconstructions"]
    row = ("real images, decoded again", *(plus_minus(decoded[score], None) for score in ("fid", "kid")), *5 * ("–",))
    note = f"{table.note} Sampling FLOPs are those of the latents; decoding an image takes {decoding(found)} besides."
    return table._replace(references=[row, *table.references], note=note)


def autoencoder_table(found: Findings) -> Table:
    """The autoencoder by itself."""
    facts, pixels = found.autoencoder, int(np.prod(found.images["shape"]))
    shape, values = facts["latent_shape"], int(np.prod(facts["latent_shape"]))
    row = (
        facts["kind"],
        "×".join(map(str, shape)),
        f"{pixels / values:.3g}",
        with_prefix(facts["parameters"]),
        decoding(found),
        f"{facts['psnr_holdout']:.1f} dB",
        f"{facts['scaling_factor']:.4g}",
    )
    columns = ("autoencoder", "latent", "pixels' values a latent value", "parameters", "decoding FLOPs")
    return Table("Autoencoder", (*columns, "PSNR, held-out images", "scale"), [row])


def limits_table(found: Findings) -> Table:
    """The groups of timesteps, and what their pruned models take."""
    return groups_table(found.groups, found.group_shares, steps_of_experts(found.variants))


def decoding(found: Findings) -> str:
    """Multiply–accumulates of decoding an image."""
    return with_prefix(found.autoencoder["decoding_flops_per_image"])


def conditions(found: Findings) -> dict[str, str]:
    """What the figures mean nothing without, as name → text."""
    draws = found.losses["base"]["train"].shape[1]
    return scoring_conditions(found.images, found.base) | {
        "autoencoder": found.base["autoencoder"][:12],
        "training seed": f"{found.base['training_seed']}, one training of each model",
        "loss profile": f"{draws} draws of latents a timestep and split",
    }
