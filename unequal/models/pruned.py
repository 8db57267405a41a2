"""Structured pruning as a record: which output channels of which layers are gone.

The record and the unpruned architecture rebuild the pruned network exactly. torch-pruning's
dependency graph finds everything that shrinks along with a layer: norms, residual sums, skip
concatenations, the inputs of the layers behind it.
"""

from collections.abc import Iterator, Sequence

import torch
from diffusers.models.attention_processor import Attention
from diffusers.models.downsampling import Downsample2D
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.unets.unet_2d import UNet2DModel
from diffusers.models.upsampling import Upsample2D
from torch import nn

from unequal.errors import UserError
from unequal.models.network import example_inputs

#: (name of a layer, its output channels to remove, by their number in the unpruned network)
Removal = tuple[str, Sequence[int]]


def dependency_graph(net: UNet2DModel):  # type: ignore[no-untyped-def]  # torch-pruning is untyped
    """torch-pruning's graph of a network, traced with one image."""
    import torch_pruning as tp

    frozen = [parameter for parameter in net.parameters() if not parameter.requires_grad]
    # The trace follows gradients: a layer without any would be missing from the graph.
    net.requires_grad_(True)
    try:
        with torch.enable_grad():
            return tp.DependencyGraph().build_dependency(
                net,
                example_inputs=example_inputs(net),
                output_transform=lambda output: output.sample,
            )
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def replay(net: UNet2DModel, removals: Sequence[Removal]) -> None:
    """Remove channels from an unpruned network, in place. Raises UserError where they are not there."""
    import torch_pruning as tp

    graph = dependency_graph(net)
    modules = dict(net.named_modules())
    for name, channels in removals:
        layer = modules.get(name)
        if not isinstance(layer, nn.Conv2d | nn.Linear):
            raise UserError(f"pruning record: '{name}' is no layer of this network; it belongs to another base")
        prune = tp.prune_conv_out_channels if isinstance(layer, nn.Conv2d) else tp.prune_linear_out_channels
        group = graph.get_pruning_group(layer, prune, idxs=list(channels))
        if not graph.check_pruning_group(group):
            raise UserError(f"pruning record: removing {len(channels)} channels empties '{name}'")
        group.prune()
    mend(net)


def mend(net: UNet2DModel) -> None:
    """Bring the sizes that diffusers keeps beside its layers in line with the layers."""
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


def attentions(net: UNet2DModel) -> Iterator[tuple[Attention, int]]:
    """Every attention layer and the width of its heads, which pruning does not change."""
    for module in net.modules():
        if isinstance(module, Attention):
            # scale = width^-½ is set once, from the unpruned width.
            yield module, round(module.scale**-2)


def reinitialise(net: nn.Module) -> None:
    """Draw all weights anew from PyTorch's global generator, as layers of these (pruned) sizes begin."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.GroupNorm | nn.Embedding):
            module.reset_parameters()
