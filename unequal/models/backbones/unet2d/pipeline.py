"""A UNet2DModel as a pipeline of diffusers, which samples it without this library."""

from pathlib import Path

from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
from diffusers.pipelines.ddpm.pipeline_ddpm import DDPMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from unequal.models.backbones.backbone import Unexportable
from unequal.models.backbones.unet2d.heads import HEADS
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.models.spec import ModelSpec
from unequal.settings.condition import Unconditional


def export(net: UNet2DModel, spec: ModelSpec, target: Path) -> None:
    """Write a network with one head as a DDIMPipeline, or as a DDPMPipeline if it has learned a variance.

    DDIM in diffusers takes no network that answers more channels than an image has; DDPM takes the further ones as
    the variance (`learned_range`).

    Raises:
        Unexportable: neither can hold it.
    """
    if (obstacle := obstacle_of(net, spec)) is not None:
        raise Unexportable(obstacle)
    settings = {
        "num_train_timesteps": spec.timesteps,
        "trained_betas": spec.noise_schedule().betas.tolist(),
        "prediction_type": spec.prediction,
        "clip_sample": True,
        "timestep_spacing": "leading",
    }
    if spec.variance == "learned":
        DDPMPipeline(net, DDPMScheduler(variance_type="learned_range", **settings)).save_pretrained(target)
    else:
        DDIMPipeline(net, DDIMScheduler(**settings)).save_pretrained(target)


def obstacle_of(net: UNet2DModel, spec: ModelSpec) -> str | None:
    """What the two pipelines have no place for; None where they hold all."""
    obstacles = {
        "a model with three heads": spec.prediction == "mixed",
        spec.condition.title: not isinstance(spec.condition, Unconditional),
        "a model of latents": spec.space.autoencoder is not None,
        "attention heads of several widths": HEADS in net.config,
    }
    return next((what for what, met in obstacles.items() if met), None)
