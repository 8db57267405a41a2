"""Page of the study: the autoencoder by itself, diffusion and experts in its latents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unequal.artifacts.figures import ReferenceFigures, ScoreFigures, read_figures
from unequal.artifacts.profiles import TrainingCurve, read_curve, read_floor, read_profile
from unequal.artifacts.timestep_files import GroupTable, read_groups
from unequal.data.prepared import PreparedData
from unequal.diffusion.schedule import NoiseSchedule
from unequal.files import read_json
from unequal.measures.loss_profile import LossProfile
from unequal.pipeline.stage import Run, stage
from unequal.report.captions import CAPTIONS
from unequal.report.comparisons import Comparison, fid_differences, in_order, pairings
from unequal.report.drawing import picture_grid
from unequal.report.formatting import label, with_prefix
from unequal.report.page import Drawing, Report, Table, publish
from unequal.report.pipeline_page import heading_and_lead
from unequal.report.pipeline_pictures import groups_and_limits
from unequal.report.pipeline_statements import Readiness, final_slope, spread_of_losses
from unequal.report.pipeline_tables import fid_rows, groups_table, losses_table, reference_row, scores_and_costs
from unequal.report.results import Variant, read_images, scoring_conditions, seed_fids, steps_of_experts
from unequal.report.statements import Section
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings


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
    """Conditions of the figures, name → text."""
    draws = found.losses["base"]["train"].shape[1]
    return scoring_conditions(found.images, found.base) | {
        "autoencoder": found.base["autoencoder"][:12],
        "training seed": f"{found.base['training_seed']}, one training of each model",
        "loss profile": f"{draws} draws of latents a timestep and split",
    }


def sections(found: LatentFindings) -> list[Section]:
    """Readiness of the base, differences of methods, and the spread of losses."""
    base = readiness(found)
    compared = [one.statement() for one in in_order(comparisons(found), base.ready)]
    losses = [spread_of_losses(LossProfile.of(found.losses["base"]["train"]))]
    return [
        Section("Is the base ready?", "", base.statements()),
        Section(*heading_and_lead(base.ready, 1), compared),
        Section("How unequal are timesteps?", "± is the standard error over draws of latents and noise.", losses),
    ]


def readiness(found: LatentFindings) -> Readiness:
    """Where the base stands between noise and real images, and whether its loss still falls."""
    noise, real = (found.references[f"{kind}_against_real"]["fid"] for kind in ("noise", "real"))
    return Readiness(found.variants["base"].fid, noise, real, final_slope(found.base_training))


def comparisons(found: LatentFindings) -> list[Comparison]:
    """Methods against their controls, by FID."""
    pairs = pairings(found.variants, ())
    fids = fid_differences(found.seed_fids, [(one.method, one.control) for one in pairs])
    return [
        Comparison(found.variants[one.method], found.variants[one.control], fid, {}, one.budget)
        for one, fid in zip(pairs, fids, strict=True)
    ]


def scores_table(found: LatentFindings) -> Table:
    """Scores and costs, with the score of decoding alone between the two ends of the scale."""
    table = scores_and_costs(list(found.variants.values()), found.references)
    decoded = found.references["reconstructions"]
    row = reference_row("real images, decoded again", decoded)
    note = f"{table.note} Sampling FLOPs are those of the latents; decoding an image takes {decoding(found)} more."
    return table._replace(references=[row, *table.references], note=note)


def autoencoder_table(found: LatentFindings) -> Table:
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


def limits_table(found: LatentFindings) -> Table:
    """The groups of timesteps, and the FLOPs of their pruned models."""
    return groups_table(found.groups, found.group_shares, steps_of_experts(found.variants))


def decoding(found: LatentFindings) -> str:
    """Multiply–accumulates of decoding an image."""
    return with_prefix(found.autoencoder["decoding_flops_per_image"])


SAMPLES_CAPTION = (
    "Samples",
    "Held-out images; the same encoded and decoded again; samples of every variant, each column from one noise.",
)


def drawings(found: LatentFindings) -> list[Drawing]:
    """All pictures, in the order of the page."""
    groups = partial(groups_and_limits, groups=found.groups, shares=found.group_shares)
    grid = partial(picture_grid, rows={label(name): images for name, images in found.samples.items()})
    return [
        Drawing("groups", (8.4, 5.6), groups, *CAPTIONS["groups"]),
        Drawing("samples", (8.4, 4.6), grid, *SAMPLES_CAPTION),
    ]


TITLE = "Diffusion in latents: timesteps are unequal there too"


class Settings(StageSettings):
    """Keys of params.yaml that this stage reads."""

    schedule: Schedule
    profiled_models: tuple[str, ...]
    variants: tuple[str, ...]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    schedule = settings.schedule.tables()
    found = read_results(run.input, schedule, settings.profiled_models, settings.variants)
    shape = "×".join(map(str, found.autoencoder["latent_shape"]))
    losses = losses_table(found.losses, found.floor, found.schedule)
    report = Report(
        title=TITLE,
        lead=f"{len(found.variants)} variants that work in latents of {shape} values.",
        sections=sections(found),
        tables=[scores_table(found), autoencoder_table(found), losses, limits_table(found)],
        conditions=conditions(found),
        drawings=drawings(found),
        rows={"fid": fid_rows(list(found.variants.values()))},
    )
    publish(run, report)


if __name__ == "__main__":
    main()
