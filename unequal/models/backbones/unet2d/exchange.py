"""UNet2DModels from and for elsewhere: trained networks from diffusers, the Hub or OpenAI, and export to diffusers."""

from pathlib import Path
from typing import cast

from unequal.errors import UserError
from unequal.models.backbones.backbone import Unexportable
from unequal.models.backbones.schedulers import FLOW, check_beside, disagreement, on_hub_or_here, write_flow
from unequal.models.backbones.unet2d.backbone import HEADS, UNet2DModel, restore_heads
from unequal.models.backbones.unet2d.openai import load_openai
from unequal.models.conditions import condition_of
from unequal.models.foreign import find_network
from unequal.models.spec import ModelSpec
from unequal.models.weights import check_finite
from unequal.settings.network import OpenAIFlags, UNet2D
from unequal.settings.schedule import FlowSchedule

#: Predictions that OpenAI's training can make.
OPENAI_PREDICTIONS = ("epsilon", "sample")


def load_pretrained(network: UNet2D, spec: ModelSpec) -> UNet2DModel:
    """The trained network that the settings name.

    Raises:
        UserError: nothing that loads is there, its weights are not finite, or it is made for other images, or for more
            than images and timesteps.
    """
    source, (channels, size, _) = str(network.pretrained), spec.space.shape
    if network.openai is not None:
        net = load_openai(Path(source), network.openai, size, network.dropout)
    else:
        net = load_diffusers(source, network.dropout)
    check_finite(net.state_dict(), f"network.pretrained: '{source}'")
    check_inputs(net, network)
    net.register_to_config(sample_size=side_of(net, size))
    has = (net.config["sample_size"], net.config["in_channels"], net.config["out_channels"])
    needed = (size, spec.input_channels, spec.output_channels)
    if has != needed:
        raise UserError(
            f"network.pretrained: '{source}' is for images of size {has[0]} with {has[1]} channels in and "
            f"{has[2]} out; the data have size {size} and {channels} channels, which is {needed[1]} in for "
            f"{spec.conditioning.title} and {needed[2]} out with {spec.variance} variance"
        )
    return net


def side_of(net: UNet2DModel, size: int) -> object:
    """Side of a network's images: of a pair the one, if both are equal; a network that names none takes any."""
    match net.config["sample_size"]:
        case None:
            return size
        case [height, width] if height == width:
            return height
        case other:
            return other


def check_pretrained(network: UNet2D, spec: ModelSpec) -> None:
    """Raise UserError where what the source says of its training is not what the settings say."""
    if network.openai is not None:
        check_openai(network, network.openai, spec)
    else:
        check_beside(network, spec)


def load_diffusers(source: str, dropout: float) -> UNet2DModel:
    """The UNet2DModel of a folder of a model or a pipeline, or of one on the Hub. Raises UserError.

    Its config may hold another dropout, from its own training; the settings' is for further training.
    """
    place, revision = on_hub_or_here(source)
    kinds, where = {UNet2DModel.__name__: UNet2DModel}, f"network.pretrained: '{source}'"
    net = find_network(kinds, place, where, (None, "unet"), revision=revision, dropout=dropout)
    return restore_heads(cast(UNet2DModel, net))


def check_inputs(net: UNet2DModel, network: UNet2D) -> None:
    """Raise UserError where a network takes other classes than the settings say, or no timesteps."""
    classes, embedding = net.config["num_class_embeds"], net.config["time_embedding_type"]
    if (kind := net.config["class_embed_type"]) is not None:
        raise UserError(
            f"network.pretrained: '{network.pretrained}' takes classes as numbers or vectors (class_embed_type "
            f"'{kind}'); allowed: networks that take labels, or nothing"
        )
    if classes != (ours := condition_of(network.condition).embedded_classes):
        raise UserError(
            f"network.condition.classes: {ours or 'none'}, but network.pretrained '{network.pretrained}' takes "
            f"{classes or 'no'} classes"
        )
    if embedding == "fourier":
        raise UserError(
            f"network.pretrained: '{network.pretrained}' takes noise levels (time_embedding_type 'fourier'); "
            "allowed: networks that take timesteps"
        )


def check_openai(network: UNet2D, flags: OpenAIFlags, spec: ModelSpec) -> None:
    """Raise UserError where OpenAI's code could not have trained such a network, or UNet2DModel does not take its t."""
    if isinstance(spec.schedule, FlowSchedule):
        theirs = f"betas, as OpenAI trains; allowed for a flow: {FLOW}"
        raise disagreement(str(network.pretrained), "schedule.name", "'flow'", theirs)
    if spec.prediction not in OPENAI_PREDICTIONS:
        raise UserError(
            f"recipes.base.prediction: {spec.prediction}; network.pretrained '{network.pretrained}' is one of OpenAI's "
            f"networks, which predict {' or '.join(OPENAI_PREDICTIONS)}"
        )
    if flags.rescale_timesteps and spec.timesteps != 1000:
        raise UserError(
            f"schedule.timesteps: {spec.timesteps}; with rescale_timesteps, network.pretrained "
            f"'{network.pretrained}' takes t·1000/T, and here t itself; allowed: 1000"
        )


def export(net: UNet2DModel, spec: ModelSpec, target: Path) -> None:
    """Write a network with one head as a DDIMPipeline, as a DDPMPipeline if it has learned a variance, or with a flow.

    DDIM in diffusers takes no network that answers more channels than an image has; DDPM takes the further ones as
    the variance (`learned_range`). No pipeline of diffusers samples a UNet2DModel on a flow; a loop over its
    scheduler does.

    Raises:
        Unexportable: none of them can hold it.
    """
    obstacles = {
        "a model with three heads": spec.prediction == "mixed",
        spec.conditioning.title: spec.condition.kind != "none",
        "a model of latents": spec.space.autoencoder is not None,
        "attention heads of several widths": HEADS in net.config,
    }
    for what, met in obstacles.items():
        if met:
            raise Unexportable(what)
    if isinstance(spec.schedule, FlowSchedule):
        net.save_pretrained(target / "unet")
        write_flow(spec.schedule, target)
        return
    # Imported here: pipelines take seconds to import, and nothing else needs them.
    from diffusers.pipelines.ddim.pipeline_ddim import DDIMPipeline
    from diffusers.pipelines.ddpm.pipeline_ddpm import DDPMPipeline
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler
    from diffusers.schedulers.scheduling_ddpm import DDPMScheduler

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
