"""Pruning of DiT's transformer: hidden channels of each MLP, heads of each attention, and whole blocks.

The width stays: every block adds to the same tokens, and their positions are made for it. torch-pruning's graph is
not asked. It cannot follow queries, keys and values out of one layer, nor see that a block can be left out; its
measures of importance take the coupled layers as they stand here.
"""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unequal.errors import UserError
from unequal.models.backbones.dit.network import MODULATIONS, Absent, DiffusionTransformer, TransformerBlock
from unequal.models.folder import Removal
from unequal.models.pruned import Block, PrunableKind, PrunableLayer

#: A hidden width stays a multiple of this, as matrix units like it.
MULTIPLE = 16


class Coupled(NamedTuple):
    """Channels of one layer that go together with those of others, as torch-pruning lists them."""

    dep: Any
    idxs: list[int]

    @property
    def root_idxs(self) -> list[int]:
        """Channel of the group that each belongs to."""
        return list(range(len(self.idxs)))


class BlockRows(nn.Linear):
    """All weights of each block as a row, so that blocks have an importance as channels have one."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        nn.Module.__init__(self)
        self.layers = [[layer for layer in block.modules() if isinstance(layer, nn.Linear)] for block in blocks]
        self.bias = None  # type: ignore[assignment]

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """[blocks, weights of a block], with their gradients where there are any."""
        rows = stacked([[layer.weight.detach() for layer in layers] for layers in self.layers])
        gradients = [[layer.weight.grad for layer in layers] for layers in self.layers]
        if all(gradient is not None for row in gradients for gradient in row):
            rows.grad = stacked(gradients)
        return rows


class PrunableDiT(PrunableKind):
    """Channels of MLPs, heads, and all blocks but the first, so that one is left."""

    description = (
        "It is a transformer (DiT) on patches of the image. All tokens pass blocks.0, blocks.1 and so on in this "
        "order; each block adds the output of its attention and of its MLP to them, and the width of the tokens stays. "
        f"A unit is one attention head (attn.qkv), or {MULTIPLE} hidden channels of an MLP (mlp.fc1). "
        "The last entry, depth, is no block but the number of blocks: its units are whole transformer blocks, each "
        "of which can be left out, except blocks.0. Its ratio is the share of them that goes, those of least "
        "importance first; 0 keeps all blocks. A block that is left out saves all that it costs, so what its own "
        "ratio removes from it saves nothing more."
    )

    def layers(self, net: DiffusionTransformer) -> Iterator[PrunableLayer]:
        """Prunable layers by block; whole blocks are a block of schemes of their own, after all others."""
        import torch_pruning as tp

        width, blocks = net.architecture.width, net.present
        channels, rows = list(range(width)), list(range(len(blocks)))
        outputs, inputs = tp.prune_linear_out_channels, tp.prune_linear_in_channels
        all_blocks = [coupled(BlockRows(blocks), outputs, rows)]
        for i, block in enumerate(blocks):
            name, here = f"blocks.{i}", Block(i, f"blocks.{i}")
            heads = [coupled(block.attn.qkv, outputs, [part * width + c for c in channels]) for part in range(3)]
            heads.append(coupled(block.attn.proj, inputs, channels))
            count = width // block.attn.head_width
            yield PrunableLayer(f"{name}.attn.qkv", here, heads, width, count, heads=True)
            hidden = list(range(block.mlp.fc1.out_features))
            mlp = [coupled(block.mlp.fc1, outputs, hidden), coupled(block.mlp.fc2, inputs, hidden)]
            yield PrunableLayer(f"{name}.mlp.fc1", here, mlp, len(hidden), MULTIPLE, heads=False)
            if i:
                yield PrunableLayer(
                    name,
                    Block(len(blocks), "depth"),
                    all_blocks,
                    1,
                    1,
                    heads=True,
                    kept=0,
                    rows=slice(i, i + 1),
                    lost=tuple(lost_with(block, width)),
                )

    def remove(self, net: DiffusionTransformer, removals: Sequence[Removal]) -> None:
        """Remove channels, heads and blocks in place. Raises UserError where they are not there, or none is left."""
        layers = {layer.name: layer for layer in self.layers(net)}
        for name, channels in removals:
            if (layer := layers.get(name)) is None:
                raise UserError(f"pruning record: '{name}' is no layer of this network; it belongs to another base")
            check_channels(layer, channels)
            if layer.lost:
                net.blocks[int(name.rpartition(".")[2])] = Absent()
            else:
                remove_coupled(layer.group, channels)


def coupled(layer: nn.Module, handler: Any, channels: list[int]) -> Coupled:
    """Channels of a layer: outputs or inputs, by torch-pruning's function that removes such."""
    dependency = SimpleNamespace(target=SimpleNamespace(module=layer), handler=handler, layer=layer, pruning_fn=handler)
    return Coupled(dependency, channels)


def remove_coupled(group: Sequence[Coupled], channels: Sequence[int]) -> None:
    """Remove some of a group's channels from all its layers, from each at once: what stands behind them moves up."""
    gone: dict[tuple[Any, nn.Module], list[int]] = {}
    for part in group:
        gone.setdefault((part.dep.handler, part.dep.layer), []).extend(part.idxs[channel] for channel in channels)
    for (handler, layer), indices in gone.items():
        handler(layer, indices)


def lost_with(block: TransformerBlock, width: int) -> Iterator[tuple[nn.Module, int, int]]:
    """Each layer of a block, and the outputs or inputs without which it costs nothing, however much of it is gone."""
    yield block.attn.qkv, 0, width
    yield block.attn.proj, width, 0
    yield block.mlp.fc1, 0, width
    yield block.mlp.fc2, width, 0
    yield block.adaLN_modulation[1], MODULATIONS * width, 0


def check_channels(layer: PrunableLayer, channels: Sequence[int]) -> None:
    """Raise UserError where a layer has no such channels, or would be left with half a head or with nothing."""
    if (last := max(channels, default=0)) >= layer.channels:
        raise UserError(f"pruning record: '{layer.name}' has no channel {last}; it belongs to another base")
    if layer.kept and len(set(channels)) >= layer.channels:
        raise UserError(f"pruning record: removing {len(channels)} channels empties '{layer.name}'")
    of_head = layer.channels // layer.parts
    if layer.heads and any(
        {channel // of_head * of_head + i for i in range(of_head)} - set(channels) for channel in channels
    ):
        raise UserError(f"pruning record: '{layer.name}' would lose part of a head of {of_head} channels")


def stacked(rows: Sequence[Sequence[Tensor | None]]) -> Tensor:
    """Tensors of any shapes, those of a row one behind the other: [rows, values]."""
    return torch.stack([torch.cat([tensor.flatten() for tensor in row if tensor is not None]) for row in rows])
