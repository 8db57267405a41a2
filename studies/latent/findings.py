"""What the study of latents has found: the autoencoder by itself, diffusion and experts in its latents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unequal.artifacts.figures import ReferenceFigures, ScoreFigures, read_figures
from unequal.artifacts.profiles import TrainingCurve, read_curve, read_floor, read_profile
from unequal.artifacts.timestep_files import GroupTable, read_groups
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json
from unequal.report.results import Variant, read_images, scoring_conditions, seed_fids


@dataclass(frozen=True)
class LatentFindings:
    """Results of the study.

    Attributes:
        losses: model → split → losses of all draws of latents, [T, n].
        floor: losses of the best possible denoiser of the training latents, [T, n], or [T, 0].
        schedule: of all models.
        groups: of timesteps, with their limits.
        group_shares: FLOPs of each group's pruned model as a share of the base's.
        variants: scores and costs.
        seed_fids: variant → FID at each sampling seed.
        base_training: the training loss of the base over the images that it saw.
        references: the two ends of the scale, and `reconstructions`, what the autoencoder alone does to real images.
        autoencoder: the content of results/metrics/autoencoder.json.
        samples: name → as many images, uint8 [n, C, H, W]; real ones, the same decoded again, every variant's.
        images: facts of the data set.
        base: those beside the base's scores.
    """

    losses: dict[str, dict[str, np.ndarray]]
    floor: np.ndarray
    schedule: NoiseSchedule
    groups: GroupTable
    group_shares: list[float]
    variants: dict[str, Variant]
    seed_fids: dict[str, list[float]]
    base_training: TrainingCurve
    references: dict[str, Any]
    autoencoder: dict[str, Any]
    samples: dict[str, np.ndarray]
    images: dict[str, Any]
    base: dict[str, Any]


def read_results(
    find: Callable[[str], Path], schedule: NoiseSchedule, models: Sequence[str], variants: Sequence[str]
) -> LatentFindings:
    """Read what the stages before the report have made; `find` turns a path into one that exists.

    Raises:
        UserError: something is missing or damaged.
    """
    images, profiles = PreparedData.open(find("artifacts/images")), find("artifacts/profiles")
    samples, scores, metrics = find("artifacts/samples"), find("results/fid"), find("results/metrics")
    grouping = read_groups(find("artifacts/groups.json"))
    pruned = [read_json(metrics / f"prune_expert_group_{one.group}.json") for one in grouping.groups]
    facts = {variant: read_figures(scores / f"{variant}.json", ScoreFigures) for variant in variants}
    again = read_images(samples / "reconstructions.npy")
    reconstructions = read_json(scores / "reconstructions.json")
    shown = {"real images": np.array(images.holdout[: len(again)]), "decoded again": again}
    shown |= {variant: read_images(samples / f"{variant}.npy") for variant in variants}
    count = min(map(len, shown.values()))
    return LatentFindings(
        losses={model: read_profile(profiles / f"{model}.npz") for model in models},
        floor=read_floor(profiles / "floor.npz"),
        schedule=schedule,
        groups=grouping,
        group_shares=[figures["share_of_base"] for figures in pruned],
        variants={variant: Variant.of(variant, facts[variant]) for variant in variants},
        seed_fids={
            variant: seed_fids(scores / f"{variant}.json", facts["base"]["sampling_seeds"]) for variant in variants
        },
        base_training=read_curve(find("results/training/base.csv")),
        references=read_figures(scores / "reference.json", ReferenceFigures) | {"reconstructions": reconstructions},
        autoencoder=read_json(metrics / "autoencoder.json"),
        samples={name: pictures[:count] for name, pictures in shown.items()},
        images=images.facts,
        base=facts["base"],
    )


def conditions(found: LatentFindings) -> dict[str, str]:
    """What the figures mean nothing without, as name → text."""
    draws = found.losses["base"]["train"].shape[1]
    return scoring_conditions(found.images, found.base) | {
        "autoencoder": found.base["autoencoder"][:12],
        "training seed": f"{found.base['training_seed']}, one training of each model",
        "loss profile": f"{draws} draws of latents a timestep and split",
    }
