"""Transformers from and for elsewhere: trained ones of DiT, SiT or diffusers, and export to diffusers.

The files of DiT and SiT hold the same tensors under the same names, so the settings say which of both trained them.
SiT's network takes 1 − s and answers with the velocity towards the data, x0 − ε; networks here take 1000·s and answer
ε − x0.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from diffusers.models.embeddings import get_2d_sincos_pos_embed
from torch import Tensor

from unequal.errors import UserError
from unequal.models.backbones.backbone import Unexportable
from unequal.models.backbones.dit.network import DiffusionTransformer, DiTConfig
from unequal.models.backbones.schedulers import check_beside, on_hub_or_here, write_flow
from unequal.models.foreign import find_network
from unequal.models.spec import ModelSpec
from unequal.models.weights import State, check_finite, check_shapes, read_state
from unequal.settings.network import DiT
from unequal.settings.schedule import FlowSchedule

#: Prediction and schedule of each code's networks, by its published training.
PREDICTIONS, SCHEDULES = {"dit": "epsilon", "sit": "velocity"}, {"dit": "linear", "sit": "flow"}
#: DiT's and SiT's number of timesteps.
TIMESTEPS = 1000
POSITIONS = "pos_embed"
#: Positions that differ by less are the same, computed in float32.
POSITIONS_AGREE = 1e-4
#: Where diffusers' pipelines keep their transformer.
SUBFOLDERS = (None, "transformer")
DIFFUSERS = "DiTTransformer2DModel"
#: The last layer, whose rows are the values of a patch.
LAST = "final_layer.linear"
#: Names of a block's layers here and in diffusers, where queries, keys and values are layers of their own.
BLOCK = {
    "attn.qkv": ("attn1.to_q", "attn1.to_k", "attn1.to_v"),
    "attn.proj": ("attn1.to_out.0",),
    "mlp.fc1": ("ff.net.0.proj",),
    "mlp.fc2": ("ff.net.2",),
    "adaLN_modulation.1": ("norm1.linear",),
}
ENDS = {"x_embedder.proj": "pos_embed.proj", "final_layer.adaLN_modulation.1": "proj_out_1", LAST: "proj_out_2"}
#: Embeddings, which every block of diffusers has for itself.
EMBEDDINGS = {
    "t_embedder.mlp.0": "timestep_embedder.linear_1",
    "t_embedder.mlp.2": "timestep_embedder.linear_2",
    "y_embedder.embedding_table": "class_embedder.embedding_table",
}
#: Classes that DiTPipeline knows; the next one stands for none.
CLASSES = 1000


def load_pretrained(network: DiT, spec: ModelSpec, config: DiTConfig) -> DiffusionTransformer:
    """The trained network that the settings name, whose architecture they have to say.

    Raises:
        UserError: nothing that loads is there, its weights are not finite, or it is of another size or for other
            images.
    """
    source = str(network.pretrained)
    if network.trained_by is not None:
        config = replace(config, frequency_shift=0, time="to_data" if network.trained_by == "sit" else "index")
        state = weights_of(read_state(Path(source)), network, spec)
    else:
        config, state = of_diffusers(source, config)
    check_finite(state, f"network.pretrained: '{source}'")
    with torch.device("meta"):
        net = DiffusionTransformer(config)
    check_shapes(state, net, f"network.pretrained: '{source}'")
    net = DiffusionTransformer(config)
    net.load_state_dict(state)
    return net.eval()


def check_pretrained(network: DiT, spec: ModelSpec) -> None:
    """Raise UserError where what the source says of its training is not what the settings say."""
    if network.trained_by is not None:
        check_training(network.trained_by, network, spec)
    else:
        check_beside(network, spec)


def check_training(trained_by: str, network: DiT, spec: ModelSpec) -> None:
    """Raise UserError where neither DiT's nor SiT's published training makes what the settings say."""
    needed: dict[str, tuple[object, object]] = {
        "recipes.base.prediction": (spec.prediction, PREDICTIONS[trained_by]),
        "schedule.timesteps": (spec.timesteps, TIMESTEPS),
    }
    needed["schedule.name"] = (spec.schedule.name, SCHEDULES[trained_by])
    if trained_by == "sit":
        needed["network.variance"] = (spec.variance, "fixed")
    for key, (ours, theirs) in needed.items():
        if ours != theirs:
            raise UserError(
                f"{key}: {ours}, but network.pretrained '{network.pretrained}' (trained_by '{trained_by}') was trained "
                f"with {theirs}"
            )


def weights_of(loaded: State, network: DiT, spec: ModelSpec) -> dict[str, Tensor]:
    """The weights in a file of DiT or SiT, as a network of these settings has them. Raises UserError."""
    place, state = f"network.pretrained: '{network.pretrained}'", dict(loaded)
    positions = state.pop(POSITIONS, None)
    if positions is not None:
        check_positions(positions, network, spec, place)
    for name in (f"{LAST}.weight", f"{LAST}.bias"):
        if name in state:
            state[name] = answers(state[name], network, spec)
    return state


def check_positions(positions: Tensor, network: DiT, spec: ModelSpec, place: str) -> None:
    """Raise UserError where a file's positions are not those of as many patches."""
    side = spec.space.size // network.patch
    ours = get_2d_sincos_pos_embed(network.width, side, base_size=side, output_type="pt").float()[None]
    if positions.shape != ours.shape:
        has, needed = list(positions.shape[1:]), list(ours.shape[1:])
        raise UserError(f"{place} has positions {has}, tokens and width; the settings make {needed}")
    if float((positions - ours).abs().max()) > POSITIONS_AGREE:
        raise UserError(f"{place} has other positions than sines and cosines")


def answers(rows: Tensor, network: DiT, spec: ModelSpec) -> Tensor:
    """The last layer's weights or biases, without a learned variance that the settings have none of; of SiT negated."""
    kept, area = spec.output_channels, network.patch**2
    if spec.variance == "fixed" and len(rows) == 2 * area * kept:
        rows = rows.unflatten(0, (area, 2 * kept))[:, :kept].flatten(0, 1)
    return -rows if network.trained_by == "sit" else rows


def of_diffusers(source: str, config: DiTConfig) -> tuple[DiTConfig, dict[str, Tensor]]:
    """The weights of a DiTTransformer2DModel of a folder or on the Hub, and the architecture with what its config says.

    Raises UserError where there is none, or one that has learned other embeddings in every block.
    """
    theirs, state = pretrained_transformer(source)
    if len(theirs.transformer_blocks) != config.depth:
        has = len(theirs.transformer_blocks)
        raise UserError(f"network.depth: {config.depth}, but network.pretrained '{source}' has {has} blocks")
    if (heads := theirs.config["num_attention_heads"]) != config.heads:
        raise UserError(f"network.heads: {config.heads}, but network.pretrained '{source}' has {heads}")
    for name in EMBEDDINGS.values():
        check_alike([state[f"transformer_blocks.{i}.norm1.emb.{name}.weight"] for i in range(config.depth)], source)
    weights = {
        ours: state[theirs[0]] if ours.startswith(tuple(EMBEDDINGS)) else torch.cat([state[name] for name in theirs])
        for ours, theirs in names(config)
        if theirs[0] in state
    }
    return replace(config, frequency_shift=1, mlp_norm_eps=theirs.config["norm_eps"]), weights


def pretrained_transformer(source: str) -> tuple[Any, dict[str, Tensor]]:
    """diffusers' transformer of a folder or on the Hub, and its weights. Raises UserError where there is none."""
    from diffusers.models.transformers.dit_transformer_2d import DiTTransformer2DModel

    place, revision = on_hub_or_here(source)
    where = f"network.pretrained: '{source}'"
    net = find_network({DIFFUSERS: DiTTransformer2DModel}, place, where, SUBFOLDERS, revision=revision)
    return net, {name: tensor.float() for name, tensor in net.state_dict().items()}


def check_alike(tensors: list[Tensor], source: str) -> None:
    """Raise UserError where blocks have embedded timestep and label in ways of their own."""
    if any(not torch.equal(tensors[0], tensor) for tensor in tensors[1:]):
        raise UserError(
            f"network.pretrained: '{source}' embeds timestep and label differently in every block; allowed: tensor way "
            "for all, as in networks that DiT's code has trained"
        )


def names(config: DiTConfig) -> Iterator[tuple[str, list[str]]]:
    """Every weight's name here, and in diffusers those of its parts, or of an embedding's copies, one a block."""
    blocks = [f"transformer_blocks.{i}" for i in range(config.depth)]
    layers = {ours: [name] for ours, name in ENDS.items()}
    layers |= {ours: [f"{block}.norm1.emb.{name}" for block in blocks] for ours, name in EMBEDDINGS.items()}
    for i, block in enumerate(blocks):
        layers |= {f"blocks.{i}.{ours}": [f"{block}.{name}" for name in parts] for ours, parts in BLOCK.items()}
    for ours, theirs in layers.items():
        for kind in ("weight", "bias"):
            if not (ours.startswith("y_embedder") and (kind == "bias" or config.classes is None)):
                yield f"{ours}.{kind}", [f"{name}.{kind}" for name in theirs]


def export(net: DiffusionTransformer, spec: ModelSpec, target: Path, autoencoder: Path | None) -> None:
    """Write a class-conditional model: of latents as a DiTPipeline with a DDIM scheduler, or with the one of a flow.

    The pipeline leaves out a learned variance. No pipeline of diffusers samples a DiTTransformer2DModel on a flow; a
    loop over the scheduler next to it does, and decodes latents by the autoencoder next to both.

    Raises:
        Unexportable: it cannot be held.
    """
    condition, of_flow = spec.conditioning, isinstance(spec.schedule, FlowSchedule)
    dropped, known = condition.null is not None, condition.null == CLASSES
    obstacles = {
        "a model with three heads": spec.prediction == "mixed",
        f"{condition.title}, as DiTTransformer2DModel takes classes or none of them (dropped_labels)": not dropped,
        f"{condition.title}, as DiTPipeline takes {CLASSES} classes or none of them": not of_flow and not known,
        "a transformer of pixels": not of_flow and spec.space.autoencoder is None,
        "a transformer that takes the time as DiT's or SiT's own code does": net.architecture.frequency_shift != 1,
    }
    for what, met in obstacles.items():
        if met:
            raise Unexportable(what)
    if isinstance(spec.schedule, FlowSchedule):
        exported_transformer(net).save_pretrained(target / "transformer")
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
    DiTPipeline(exported_transformer(net), vae, scheduler).save_pretrained(target)


def exported_transformer(net: DiffusionTransformer) -> Any:
    """Network as diffusers' DiTTransformer2DModel, whose blocks all hold the same embeddings."""
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
    own, state = net.state_dict(), dict[str, Tensor]()
    for ours, theirs in names(net.architecture):
        copies = ours.startswith(tuple(EMBEDDINGS))
        parts = [own[ours]] * len(theirs) if copies else own[ours].chunk(len(theirs))
        state |= dict(zip(theirs, parts, strict=True))
    return state
