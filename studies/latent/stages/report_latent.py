"""Page of the study: the autoencoder by itself, diffusion and experts in its latents."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unequal.data.prepared import PreparedData
from unequal.evaluation.loss_profile import LossProfile
from unequal.evaluation.profiles import read_floor, read_profile
from unequal.pipeline.commit import commit_words
from unequal.pipeline.stage import Run, stage
from unequal.report.captions import CAPTIONS
from unequal.report.comparisons import Comparison, fid_differences, in_order, pairings
from unequal.report.drawing import picture_grid
from unequal.report.figures import ReferenceFigures, ScoreFigures, read_curve, read_figures
from unequal.report.formatting import label, today, with_prefix
from unequal.report.page import Drawing, Report, Table, publish
from unequal.report.pipeline_page import heading_and_lead
from unequal.report.pipeline_pictures import groups_and_limits
from unequal.report.pipeline_statements import Readiness, final_slope, spread_of_losses
from unequal.report.pipeline_tables import (
    costs_table,
    fid_rows,
    groups_table,
    losses_table,
    reference_row,
    scores_table,
)
from unequal.report.results import Variant, data_condition, read_images, scoring_conditions, seed_fids, steps_of_experts
from unequal.report.statements import Section, Statement
from unequal.runtime.files import read_json
from unequal.settings.schedule import Schedule
from unequal.settings.strict import StageSettings
from unequal.training.timestep_files import read_groups

TITLE = "Diffusion in latents: timesteps are unequal there too"
SAMPLES_CAPTION = (
    "Samples",
    "Held-out images; the same encoded and decoded again; samples of every variant, each column from one noise.",
)


def sections(
    variants: Mapping[str, Variant], fids: Mapping[str, list[float]], base: Readiness, spread: Statement
) -> list[Section]:
    """Readiness of the base, differences of methods, and the spread of the base's losses."""
    pairs = pairings(variants, ())
    differences = fid_differences(fids, [(one.method, one.control) for one in pairs])
    compared = [
        Comparison(variants[one.method], variants[one.control], fid, {}, one.budget)
        for one, fid in zip(pairs, differences, strict=True)
    ]
    return [
        Section("Is the base ready?", "", base.statements()),
        Section(*heading_and_lead(base.ready), [one.statement() for one in in_order(compared, base.ready)]),
        Section("How unequal are timesteps?", "± is the standard error over draws of latents and noise.", [spread]),
    ]


def scores_and_costs(
    variants: Mapping[str, Variant], ends: Mapping[str, Any], decoded: Mapping[str, Any], cost: str
) -> list[Table]:
    """Scores, with that of decoding alone between the two ends of the scale, and costs."""
    scores, costs = scores_table(list(variants.values()), ends), costs_table(list(variants.values()))
    row = reference_row("real images, decoded again", decoded)
    note = f"{costs.note} Sampling FLOPs are those of the latents; decoding an image takes {cost} more."
    return [scores._replace(references=[row, *scores.references]), costs._replace(note=note)]


def autoencoder_table(facts: Mapping[str, Any], pixels: int, cost: str) -> Table:
    """The autoencoder by itself, for images of so many values."""
    row = (
        facts["kind"],
        shape_of(facts),
        f"{pixels / np.prod(facts['latent_shape']):.3g}",
        with_prefix(facts["parameters"]),
        cost,
        f"{facts['psnr_holdout']:.1f} dB",
        f"{facts['scaling_factor']:.4g}",
    )
    columns = ("autoencoder", "latent", "pixels' values a latent value", "parameters", "decoding FLOPs")
    return Table("Autoencoder", (*columns, "PSNR, held-out images", "scale"), [row])


def shape_of(facts: Mapping[str, Any]) -> str:
    """The shape of a latent as text."""
    return "×".join(map(str, facts["latent_shape"]))


def grid_of(images: PreparedData, samples: Path, variants: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Real images, the same decoded again, and every variant's samples, as many of each, uint8 [n, C, H, W]."""
    again = read_images(samples / "reconstructions.npy")
    shown = {"real images": np.array(images.holdout[: len(again)]), "decoded again": again}
    shown |= {label(variant): read_images(samples / f"{variant}.npy") for variant in variants}
    count = min(map(len, shown.values()))
    return {name: pictures[:count] for name, pictures in shown.items()}


class Settings(StageSettings):
    schedule: Schedule
    profiled_models: tuple[str, ...]
    variants: tuple[str, ...]


@stage(Settings)
def main(run: Run, settings: Settings) -> None:
    """Write the study's report."""
    images, profiles = PreparedData.open(run.input("artifacts/images")), run.input("artifacts/profiles")
    scores, metrics = run.input("results/fid"), run.input("results/metrics")
    grouping, autoencoder = read_groups(run.input("artifacts/groups.json")), read_json(metrics / "autoencoder.json")
    shares = [read_json(metrics / f"prune_expert_group_{one.group}.json")["share_of_base"] for one in grouping.groups]
    facts = {one: read_figures(scores / f"{one}.json", ScoreFigures) for one in settings.variants}
    base, variants = facts["base"], {name: Variant.of(name, one) for name, one in facts.items()}
    fids = {name: seed_fids(scores / f"{name}.json", base["sampling_seeds"]) for name in variants}
    ends = read_figures(scores / "reference.json", ReferenceFigures)
    noise, real = (ends[f"{kind}_against_real"]["fid"] for kind in ("noise", "real"))
    slope = final_slope(read_curve(run.input("results/training/base.csv")))
    losses = {model: read_profile(profiles / f"{model}.npz") for model in settings.profiled_models}
    cost, draws = with_prefix(autoencoder["decoding_flops_per_image"]), losses["base"]["train"]
    spread = spread_of_losses(LossProfile.of(draws))
    report = Report(
        title=TITLE,
        lead=f"In latents of {shape_of(autoencoder)} values: {spread.text}",
        facts=" · ".join([data_condition(images.facts), today(), *commit_words()]),
        sections=sections(variants, fids, Readiness(variants["base"].fid, noise, real, slope), spread),
        tables=[
            *scores_and_costs(variants, ends, read_json(scores / "reconstructions.json"), cost),
            autoencoder_table(autoencoder, int(np.prod(images.facts["shape"])), cost),
            losses_table(losses, read_floor(profiles / "floor.npz"), settings.schedule.tables()),
            groups_table(grouping, shares, steps_of_experts(variants)),
        ],
        conditions=scoring_conditions(images.facts, base)
        | {
            "autoencoder": base["autoencoder"][:12],
            "training seed": f"{base['training_seed']}, one training of each model",
            "loss profile": f"{draws.shape[1]} draws of latents a timestep and split",
        },
        drawings=[
            Drawing(
                "groups", (8.4, 5.6), partial(groups_and_limits, groups=grouping, shares=shares), *CAPTIONS["groups"]
            ),
            Drawing(
                "samples",
                (8.4, 4.6),
                partial(picture_grid, rows=grid_of(images, run.input("artifacts/samples"), settings.variants)),
                *SAMPLES_CAPTION,
            ),
        ],
        rows={"fid": fid_rows(list(variants.values()))},
    )
    publish(run, report)
