"""Take models away: as a folder that diffusers loads, or as one that this library loads."""

import shutil
from pathlib import Path

import click
from diffusers.models.unets.unet_2d import UNet2DModel
from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
from diffusers.pipelines.ddpm.pipeline_ddpm import DDPMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from unequal.errors import UserError
from unequal.models.artifact import PRUNING, RECORD, SNAPSHOTS, ModelRecord, load_model
from unequal.sampling import Experts

MODELS = Path("artifacts/models")


def export_model(source: Path, target: Path) -> None:
    """Write one model as a pipeline of diffusers or, where diffusers cannot hold it, as the folder that it is."""
    net, record = load_model(source)
    obstacle = what_diffusers_lacks(source, record)
    if obstacle is None:
        export_pipeline(net, record, target)
    else:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(SNAPSHOTS))
        click.echo(f"{target}: diffusers cannot load a model that is {obstacle}; unequal.sampling.Experts.load does")


def what_diffusers_lacks(source: Path, record: ModelRecord) -> str | None:
    """For what no pipeline of diffusers can hold the model in a folder; None where one can."""
    obstacles = {
        "pruned": (source / PRUNING).exists(),
        "with three heads": record.prediction == "mixed",
        "for super-resolution": record.enlargement is not None,
        "for latents": record.autoencoder is not None,
        "class-conditional": record.classes is not None,
    }
    return next((what for what, met in obstacles.items() if met), None)


def export_pipeline(net: UNet2DModel, record: ModelRecord, target: Path) -> None:
    """Write a network with one head as a DDIMPipeline, or as a DDPMPipeline if it has learned a variance.

    DDIM in diffusers takes no network that answers more channels than an image has; DDPM takes the further ones as
    the variance (`learned_range`).
    """
    settings = {
        "num_train_timesteps": record.timesteps,
        "trained_betas": record.noise_schedule().betas.tolist(),
        "prediction_type": record.prediction,
        "clip_sample": True,
        "timestep_spacing": "leading",
    }
    if record.learned_variance:
        DDPMPipeline(net, DDPMScheduler(variance_type="learned_range", **settings)).save_pretrained(target)
    else:
        DDIMPipeline(net, DDIMScheduler(**settings)).save_pretrained(target)


def export_experts(source: Path, target: Path) -> None:
    """Copy the experts that belong together; `Experts.load` takes the folder. Raises UserError where one is missing."""
    for expert in Experts.load(source).experts:
        name = f"group_{expert.record.group}"
        shutil.copytree(source / name, target / name)


def export(name: str, target: Path) -> None:
    """Export a model or a set of experts by its name in params.yaml's `variants`."""
    source = MODELS / name
    if not source.exists():
        there = ", ".join(sorted(path.name for path in MODELS.glob("*"))) or "none; `dvc repro` trains them"
        raise UserError(f"{source}: no such model; there are: {there}")
    if target.exists():
        raise UserError(f"{target}: exists already; name a new folder")
    (export_model if (source / RECORD).exists() else export_experts)(source, target)


@click.command()
@click.argument("name")
@click.argument("target", type=click.Path(path_type=Path))
def main(name: str, target: Path) -> None:
    """Export the model NAME (base, longer, experts_pruned …) to the new folder TARGET."""
    try:
        export(name, target)
    except UserError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
