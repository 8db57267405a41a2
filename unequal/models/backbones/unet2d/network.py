"""UNet2DModel, imported by itself: with all that diffusers imports beside it, that takes seconds."""

from unequal.models.backbones.lean import defer, without

# Layers of other networks can do without the compiler, which is imported where something is compiled or optimised.
with without("torch._dynamo"):
    defer("diffusers.models.transformers")
    defer("diffusers.models.unets")
    from diffusers.models.unets.unet_2d import UNet2DModel

__all__ = ["UNet2DModel"]
