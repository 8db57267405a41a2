"""Pruning of a UNet2DModel: its prunable layers, and the sizes that have to follow.

Left alone are the output (its channels are the image's) and the time embedding (its cost is negligible, and every
block reads it).
"""

import re
from collections.abc import Iterator, Sequence

from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.upsampling import Upsample2D
from torch import nn

from unequal.models.backbones.unet2d.backbone import UNet2DModel, attentions
from unequal.models.folder import Removal
from unequal.models.pruned import Block, PrunableKind, PrunableLayer, dependency_graph

#: Kinds of blocks in the order in which an image passes them.
KINDS = ("conv_in", "down_blocks", "mid_block", "up_blocks")


class PrunableUNet2D(PrunableKind):
    """Its convolutions, and the heads of its attention."""

    description = (
        "It is a U-Net. An image passes its blocks in this order: conv_in, down_blocks from the highest to the lowest "
        "resolution, mid_block at the lowest, and up_blocks back to the highest, each of which also gets the outputs "
        "of the down_block of its resolution. A unit is one channel of each norm group of a convolution, or one "
        "attention head. Layers whose outputs are added up count as one, under the name of the first."
    )

    def layers(self, net: UNet2DModel) -> Iterator[PrunableLayer]:
        """Convolutions that are added up count as one."""
        import torch_pruning as tp

        names = {module: name for name, module in net.named_modules()}
        graph = dependency_graph(net)
        for group in graph.get_all_groups(ignored_layers=[net.conv_out], root_module_types=[nn.Conv2d]):
            root = group[0].dep.target.module
            name, norm_groups = names[root], net.config["norm_num_groups"]
            yield PrunableLayer(name, block_of(name), group, root.out_channels, norm_groups, heads=False)
        for attention, width in attentions(net):
            size, name = attention.to_q.out_features, names[attention.to_q]
            group = graph.get_pruning_group(attention.to_q, tp.prune_linear_out_channels, idxs=list(range(size)))
            yield PrunableLayer(name, block_of(name), group, size, size // width, heads=True)

    def remove(self, net: UNet2DModel, removals: Sequence[Removal]) -> None:
        """Remove channels, and correct the sizes that diffusers stores next to its layers."""
        super().remove(net, removals)
        for module in net.modules():
            if isinstance(module, Upsample2D | Downsample2D) and isinstance(module.conv, nn.Conv2d):
                module.channels, module.out_channels = module.conv.in_channels, module.conv.out_channels
            if isinstance(module, ResnetBlock2D):
                for sampler in (module.upsample, module.downsample):
                    if isinstance(sampler, Upsample2D | Downsample2D):  # without a convolution of its own
                        sampler.channels = module.norm1.num_channels
        for attention, width in attentions(net):
            attention.heads = attention.to_q.out_features // width
            attention.inner_dim = attention.inner_kv_dim = attention.to_q.out_features


def block_of(layer: str) -> Block:
    """The block of a layer: `down_blocks.1`, `mid_block`, `up_blocks.0`, or a layer that stands alone, `conv_in`."""
    match = re.match(r"(down_blocks|up_blocks)\.\d+|[^.]+", layer)
    assert match is not None
    return Block(KINDS.index(match[0].partition(".")[0]), match[0])
