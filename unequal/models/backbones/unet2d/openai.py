"""OpenAI's networks (improved-diffusion, guided-diffusion) as UNet2DModel.

Both are the same U-Net under different names. Their files hold tensors alone: how large the network is follows from
their names and shapes, how many heads its attention has and how these lie in the weights has to be said.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from unequal.errors import UserError
from unequal.models.backbones.unet2d.backbone import UNet2DModel, give_heads
from unequal.models.weights import State, check_shapes, read_state
from unequal.settings.network import OpenAIFlags

#: Groups of every GroupNorm.
NORM_GROUPS = 32
#: A residual block's and an attention's layers, by their names there and here.
RESIDUAL = {
    "in_layers.0": "norm1",
    "in_layers.2": "conv1",
    "emb_layers.1": "time_emb_proj",
    "out_layers.0": "norm2",
    "out_layers.3": "conv2",
    "skip_connection": "conv_shortcut",
}
ENDS = {
    "time_embed.0": "time_embedding.linear_1",
    "time_embed.2": "time_embedding.linear_2",
    "label_emb": "class_embedding",
    "input_blocks.0.0": "conv_in",
    "out.0": "conv_norm_out",
    "out.2": "conv_out",
}


def load_openai(path: Path, flags: OpenAIFlags, image_size: int, dropout: float) -> UNet2DModel:
    """The network of a file, for images of a size that the file does not know.

    Args:
        path: of the `.pt` file.
        flags: of its training.
        image_size: height and width.
        dropout: in further training.

    Raises:
        UserError: the file is no state dict, or its network cannot be a UNet2DModel.
    """
    state = read_state(path)
    try:
        architecture = OpenAIArchitecture.of(state)
        with torch.device("meta"):
            net = architecture.network(image_size, flags, dropout)
        weights = translated(state, architecture, flags)
    except UserError as error:
        raise UserError(f"network.pretrained: '{path}' {error}") from None
    check_shapes(weights, net, f"network.pretrained: '{path}'")
    net.to_empty(device="cpu").load_state_dict(weights)
    return net.eval()


@dataclass(frozen=True)
class OpenAIArchitecture:
    """The architecture behind a state dict.

    Attributes:
        channels: of each level, from the image's size downwards.
        layers: residual blocks of a level on the way down; on the way up there is one more.
        attends: whether each level has attention.
        resampling: `conv`, or `resnet` where residual blocks change the size (`resblock_updown`).
        scale_shift: whether the time embedding scales and shifts.
        inputs, outputs: channels of the first and last layer.
        classes: that the network takes, None for none.
    """

    channels: tuple[int, ...]
    layers: int
    attends: tuple[bool, ...]
    resampling: str
    scale_shift: bool
    inputs: int
    outputs: int
    classes: int | None

    @classmethod
    def of(cls, state: State) -> "OpenAIArchitecture":
        """Read off names and shapes. Raises UserError where they are no such network's."""
        blocks = 0
        while f"output_blocks.{blocks}.0.in_layers.2.weight" in state:
            blocks += 1
        # A level ends, on the way up, with a convolution behind the upsampling or with a second residual block.
        ends = [i for i in range(blocks) if upsampler(state, i) is not None]
        levels = len(ends) + 1
        if not blocks or blocks % levels or ends != [(k + 1) * blocks // levels - 1 for k in range(levels - 1)]:
            raise UserError("holds no U-Net of improved-diffusion or guided-diffusion")
        size = blocks // levels
        first = [f"input_blocks.{1 + level * size}" for level in range(levels)]
        channels = tuple(len(get(state, f"{name}.0.in_layers.2.weight")) for name in first)
        embedding = get(state, f"{first[0]}.0.emb_layers.1.weight")
        labels = state.get("label_emb.weight")
        resnets = bool(ends) and f"output_blocks.{ends[0]}.{upsampler(state, ends[0])}.in_layers.2.weight" in state
        return cls(
            channels=channels,
            layers=size - 1,
            attends=tuple(f"{name}.1.qkv.weight" in state for name in first),
            resampling="resnet" if resnets else "conv",
            scale_shift=len(embedding) == 2 * channels[0],
            inputs=get(state, "input_blocks.0.0.weight").shape[1],
            outputs=len(get(state, "out.2.weight")),
            classes=None if labels is None else len(labels),
        )

    @property
    def attended(self) -> set[int]:
        """Channels of the levels that have attention; the middle always has it."""
        return {c for c, attends in zip(self.channels, self.attends, strict=True) if attends} | {self.channels[-1]}

    def network(self, image_size: int, flags: OpenAIFlags, dropout: float) -> UNet2DModel:
        """A network of this architecture. Raises UserError where diffusers or the images do not allow it."""
        if image_size % 2 ** (len(self.channels) - 1):
            raise UserError(f"halves images {len(self.channels) - 1} times, which those of size {image_size} cannot be")
        plain = "Resnet{}sampleBlock2D" if self.resampling == "resnet" else "{}Block2D"
        down, up = (
            tuple(f"Attn{direction}Block2D" if attends else plain.format(direction) for attends in self.attends)
            for direction in ("Down", "Up")
        )
        widths = {head_width(channels, flags) for channels in self.attended}
        try:
            net = UNet2DModel(
                sample_size=image_size,
                in_channels=self.inputs,
                out_channels=self.outputs,
                layers_per_block=self.layers,
                block_out_channels=self.channels,
                down_block_types=down,
                up_block_types=up[::-1],
                downsample_type=self.resampling,
                upsample_type=self.resampling,
                # Of several widths any one that divides them stands in, until the heads are given.
                attention_head_dim=math.gcd(*widths),
                norm_num_groups=NORM_GROUPS,
                # Else diffusers leaves out the middle attention's norm where the time embedding scales and shifts.
                attn_norm_num_groups=NORM_GROUPS,
                resnet_time_scale_shift="scale_shift" if self.scale_shift else "default",
                num_class_embeds=self.classes,
                dropout=dropout,
            )
        except ValueError as error:
            raise UserError(f"cannot be built as UNet2DModel ({error})") from None
        if len(widths) > 1:
            give_heads(net, flags.num_heads or 1)
        return net

    def modules(self) -> Iterator[tuple[str, str]]:
        """Each residual block, attention or convolution between the ends: its name there, its name here."""
        size, last = self.layers + 1, len(self.channels) - 1
        for level, attends in enumerate(self.attends):
            for layer in range(self.layers):
                yield from self.layer(
                    f"input_blocks.{1 + level * size + layer}", f"down_blocks.{level}", layer, attends
                )
            if level < last:
                yield from self.sampler(f"input_blocks.{(level + 1) * size}.0", "op", f"down_blocks.{level}.down")
        yield "middle_block.0", "mid_block.resnets.0"
        yield "middle_block.1", "mid_block.attentions.0"
        yield "middle_block.2", "mid_block.resnets.1"
        for level, attends in enumerate(reversed(self.attends)):
            for layer in range(size):
                yield from self.layer(f"output_blocks.{level * size + layer}", f"up_blocks.{level}", layer, attends)
            if level < last:
                behind = f"output_blocks.{(level + 1) * size - 1}.{1 + attends}"
                yield from self.sampler(behind, "conv", f"up_blocks.{level}.up")

    def layer(self, there: str, here: str, layer: int, attends: bool) -> Iterator[tuple[str, str]]:
        """A residual block and the attention behind it."""
        yield f"{there}.0", f"{here}.resnets.{layer}"
        if attends:
            yield f"{there}.1", f"{here}.attentions.{layer}"

    def sampler(self, there: str, convolution: str, here: str) -> Iterator[tuple[str, str]]:
        """Part that halves or doubles the size: a residual block, or a convolution."""
        if self.resampling == "resnet":
            yield there, f"{here}samplers.0"
        else:
            yield f"{there}.{convolution}", f"{here}samplers.0.conv"


def upsampler(state: State, block: int) -> int | None:
    """Position in an output block of the part that doubles the size; None where there is none."""
    for position in (1, 2):
        below = f"output_blocks.{block}.{position}"
        if f"{below}.conv.weight" in state or f"{below}.in_layers.2.weight" in state:
            return position
    return None


def get(state: State, name: str) -> Tensor:
    """A tensor of the file. Raises UserError where it is missing."""
    if name not in state:
        raise UserError(f"lacks '{name}'")
    return state[name]


def translated(state: State, architecture: OpenAIArchitecture, flags: OpenAIFlags) -> dict[str, Tensor]:
    """The state dict of a UNet2DModel. Raises UserError where the file holds more or less than its architecture."""
    names = dict(ENDS)
    weights: dict[str, Tensor] = {}
    used: set[str] = set()
    for there, here in architecture.modules():
        if f"{there}.qkv.weight" in state:
            names |= {f"{there}.norm": f"{here}.group_norm"}
            weights |= attention(state, there, here, flags)
            used |= {f"{there}.{part}.{kind}" for part in ("qkv", "proj_out") for kind in ("weight", "bias")}
        elif f"{there}.in_layers.0.weight" in state:
            names |= {f"{there}.{old}": f"{here}.{new}" for old, new in RESIDUAL.items()}
        else:
            names[there] = here
    for there, here in names.items():
        for kind in ("weight", "bias"):
            if (old := f"{there}.{kind}") in state:
                weights[f"{here}.{kind}"] = state[old]
                used.add(old)
    if left := sorted(set(state) - used):
        raise UserError(f"holds '{left[0]}', for which UNet2DModel has no place")
    return weights


def attention(state: State, there: str, here: str, flags: OpenAIFlags) -> dict[str, Tensor]:
    """Weights of an attention: queries, keys and values lie in one convolution.

    There they lie head by head or, newer (`use_new_attention_order`), all queries first, then all keys, then all
    values, as here.

    Args:
        state: of the file.
        there, here: name of the attention in the file and in UNet2DModel.
        flags: of its training.
    """
    weights: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        # 1×1 convolutions over positions there, linear layers here.
        whole, out = (get(state, f"{there}.{layer}.{kind}").squeeze(-1) for layer in ("qkv", "proj_out"))
        if len(whole) != 3 * len(out):
            raise UserError(
                f"has '{there}.qkv.{kind}' with {len(whole)} rows; needed are {len(out)} each for q, k and v"
            )
        by_head = whole.unflatten(0, (-1, 3, head_width(len(out), flags))).unbind(1)
        parts = whole.chunk(3) if flags.use_new_attention_order else [part.flatten(0, 1) for part in by_head]
        weights |= {f"{here}.to_{name}.{kind}": part for name, part in zip("qkv", parts, strict=True)}
        weights[f"{here}.to_out.0.{kind}"] = out
    return weights


def head_width(channels: int, flags: OpenAIFlags) -> int:
    """Channels of each head of an attention over so many. Raises UserError where they cannot be divided so."""
    heads, width = flags.num_heads, flags.num_head_channels
    if channels % (heads or width or 1):
        which = f"{heads} heads" if heads else f"heads of {width}"
        raise UserError(f"has attention of {channels} channels, which {which} do not divide")
    return channels // heads if heads else width or channels
