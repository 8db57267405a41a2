"""A UNet2DModel as a pipeline of diffusers, which samples it without this library."""

from pathlib import Path

from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
from diffusers.pipelines.ddpm.pipeline_ddpm import DDPMPipeline
from diffusers.schedulers.scheduling_ddim import DDIMScheduler
from diffusers.schedulers.scheduling_ddpm import DDPMScheduler
from diffusers.schedulers.scheduling_flow_match_euler_discrete import FlowMatchEulerDiscreteScheduler

from unequal.diffusion.schedule import REFERENCE_TIMESTEPS
from unequal.models.backbones.backbone import Unexportable
from unequal.models.backbones.unet2d.heads import HEADS
from unequal.models.backbones.unet2d.network import UNet2DModel
from unequal.models.spec import ModelSpec
from unequal.settings.condition import Unconditional
from unequal.settings.schedule import FlowSchedule


def export(net: UNet2DModel, spec: ModelSpec, target: Path) -> None:
    """Write a network with one head as a DDIMPipeline, or as a DDPMPipeline if it has learned a variance.

    The network of a flow is written beside its scheduler; see `export_flow`.

    DDIM in diffusers takes no network that answers more channels than an image has; DDPM takes the further ones as
    the variance (`learned_range`).

    Raises:
        Unexportable: neither can hold it.
    """
    if (obstacle := obstacle_of(net, spec)) is not None:
        raise Unexportable(obstacle)
    if isinstance(spec.schedule, FlowSchedule):
        export_flow(net, spec.schedule, target)
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


def export_flow(net: UNet2DModel, schedule: FlowSchedule, target: Path) -> None:
    """Write a network and the scheduler of its flow, each in the folder where pipelines have theirs.

    No pipeline of diffusers samples a UNet2DModel so: a loop over the scheduler does. It is to be given the times
    before they are shifted, `set_timesteps(sigmas=…)`: with a number of steps it shifts its last time twice
    (diffusers' issue 13243). Networks are told 1000·s whatever T was, so that its thousand is not T.
    """
    net.save_pretrained(target / "unet")
    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=REFERENCE_TIMESTEPS, shift=schedule.shift)
    scheduler.save_pretrained(target / "scheduler")


def obstacle_of(net: UNet2DModel, spec: ModelSpec) -> str | None:
    """What the two pipelines have no place for; None where they hold all."""
    flow = isinstance(spec.schedule, FlowSchedule)
    obstacles = {
        "a model with three heads": spec.prediction == "mixed",
        "a model that predicts the velocity, on a schedule of betas": spec.prediction == "velocity" and not flow,
        f"a model of a flow that predicts '{spec.prediction}'": spec.prediction != "velocity" and flow,
        spec.condition.title: not isinstance(spec.condition, Unconditional),
        "a model of latents": spec.space.autoencoder is not None,
        "attention heads of several widths": HEADS in net.config,
    }
    return next((what for what, met in obstacles.items() if met), None)
