"""A UNet2DModel as diffusers has it: in a pipeline, or beside a flow's scheduler."""

from pathlib import Path

from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
from diffusers.pipelines.ddpm.pipeline_ddpm import DDPMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

from unequal.models.backbones.backbone import Unexportable
from unequal.models.backbones.schedulers import write_flow
from unequal.models.backbones.unet2d.heads import HEADS
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.models.spec import ModelSpec
from unequal.settings.condition import Unconditional
from unequal.settings.schedule import FlowSchedule


def export(net: UNet2DModel, spec: ModelSpec, target: Path) -> None:
    """Write a network with one head as a DDIMPipeline, as a DDPMPipeline if it has learned a variance, or with a flow.

    DDIM in diffusers takes no network that answers more channels than an image has; DDPM takes the further ones as
    the variance (`learned_range`). No pipeline of diffusers samples a UNet2DModel on a flow; a loop over the scheduler
    beside it does.

    Raises:
        Unexportable: none of them can hold it.
    """
    if (obstacle := obstacle_of(net, spec)) is not None:
        raise Unexportable(obstacle)
    if isinstance(spec.schedule, FlowSchedule):
        net.save_pretrained(target / "unet")
        write_flow(spec.schedule, target)
        return
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
    """What they have no place for; None where they hold all."""
    obstacles = {
        "a model with three heads": spec.prediction == "mixed",
        spec.condition.title: not isinstance(spec.condition, Unconditional),
        "a model of latents": spec.space.autoencoder is not None,
        "attention heads of several widths": HEADS in net.config,
    }
    return next((what for what, met in obstacles.items() if met), None)
