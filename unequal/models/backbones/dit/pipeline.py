"""DiT's transformer as diffusers has it: in a DiTPipeline, or beside a flow's scheduler."""

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unequal.models.backbones.backbone import Unexportable
from unequal.models.backbones.dit.network import DiffusionTransformer
from unequal.models.backbones.dit.pretrained import EMBEDDINGS, QUERIES_KEYS_VALUES, names
from unequal.models.backbones.schedulers import write_flow
from unequal.models.spec import ModelSpec
from unequal.settings.condition import DroppedLabels
from unequal.settings.schedule import FlowSchedule

#: Classes that DiTPipeline knows; the next one stands for none.
CLASSES = 1000


def export(net: DiffusionTransformer, spec: ModelSpec, target: Path, autoencoder: Path | None) -> None:
    """Write a class-conditional model: of latents as a DiTPipeline with a DDIM scheduler, or with the one of a flow.

    The pipeline leaves out a learned variance. No pipeline of diffusers samples a DiTTransformer2DModel on a flow; a
    loop over the scheduler beside it does, and decodes latents by the autoencoder beside both.

    Raises:
        Unexportable: it cannot be held.
    """
    if (obstacle := obstacle_of(net, spec)) is not None:
        raise Unexportable(obstacle)
    if isinstance(spec.schedule, FlowSchedule):
        transformer_of(net).save_pretrained(target / "transformer")
        write_flow(spec.schedule, target)
        if autoencoder is not None:
            shutil.copytree(autoencoder, target / "vae")
    else:
        export_pipeline(net, spec, target, autoencoder)


def export_pipeline(net: DiffusionTransformer, spec: ModelSpec, target: Path, autoencoder: Path | None) -> None:
    """Write a model of latents as a DiTPipeline. Raises Unexportable where its autoencoder does not go into one."""
    # Imported here: pipelines take seconds to import, and nothing else needs them.
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
    from diffusers.pipelines.dit.pipeline_dit import DiTPipeline
    from diffusers.schedulers.scheduling_ddim import DDIMScheduler

    if autoencoder is None:
        raise Unexportable("a model of latents without the autoencoder that it was trained with")
    kind = AutoencoderKL.load_config(autoencoder)["_class_name"]
    if kind != AutoencoderKL.__name__:
        raise Unexportable(f"a model of the latents of a {kind}")
    vae = AutoencoderKL.from_pretrained(autoencoder)
    if vae.config["shift_factor"]:
        raise Unexportable("a model of latents that are shifted (shift_factor)")
    scheduler = DDIMScheduler(
        num_train_timesteps=spec.timesteps,
        trained_betas=spec.noise_schedule().betas.tolist(),
        prediction_type=spec.prediction,
        clip_sample=False,
        timestep_spacing="leading",
    )
    DiTPipeline(transformer_of(net), vae, scheduler).save_pretrained(target)


def obstacle_of(net: DiffusionTransformer, spec: ModelSpec) -> str | None:
    """What diffusers has no place for; None where it holds all."""
    chosen, condition, of_flow = net.architecture, spec.condition, isinstance(spec.schedule, FlowSchedule)
    dropped = isinstance(condition, DroppedLabels)
    known = isinstance(condition, DroppedLabels) and condition.classes == CLASSES
    obstacles = {
        "a model with three heads": spec.prediction == "mixed",
        f"{condition.title}, as DiTTransformer2DModel is told classes or none of them (dropped_labels)": not dropped,
        f"{condition.title}, as DiTPipeline is told {CLASSES} classes or none of them": not of_flow and not known,
        "a transformer of pixels": not of_flow and spec.space.autoencoder is None,
        "a transformer that is told the time as DiT's or SiT's own code does": chosen.frequency_shift != 1,
    }
    return next((what for what, met in obstacles.items() if met), None)


def transformer_of(net: DiffusionTransformer) -> Any:
    """The same network as diffusers' DiTTransformer2DModel, whose blocks all hold the same embeddings."""
    from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel

    chosen = net.architecture
    assert chosen.classes is not None
    theirs = DiTTransformer2DModel(
        num_attention_heads=chosen.heads,
        attention_head_dim=chosen.width // chosen.heads,
        in_channels=chosen.inputs,
        out_channels=chosen.outputs,
        num_layers=chosen.depth,
        sample_size=chosen.size,
        patch_size=chosen.patch,
        num_embeds_ada_norm=chosen.classes - 1,
        norm_eps=chosen.mlp_norm_eps,
    )
    theirs.load_state_dict(state_of(net))
    return theirs


def state_of(net: DiffusionTransformer) -> dict[str, Tensor]:
    """Its weights under diffusers' names."""
    ours, depth = net.state_dict(), net.architecture.depth
    state = {name: ours[own] for own, name in names(net.architecture)}
    for name, tensor in list(state.items()):
        if any(f"emb.{part}." in name for part in EMBEDDINGS.values()):
            state |= {name.replace("blocks.0", f"blocks.{i}"): tensor for i in range(1, depth)}
    for i in range(depth):
        for kind in ("weight", "bias"):
            parts = ours[f"blocks.{i}.attn.qkv.{kind}"].chunk(3)
            named = zip(QUERIES_KEYS_VALUES, parts, strict=True)
            state |= {f"transformer_blocks.{i}.{name}.{kind}": torch.clone(part) for name, part in named}
    return state
