"""The UNet2DModel of diffusers: built, taken over from elsewhere, pruned, and given to a pipeline of diffusers."""

from unequal.extras import needs

needs(__name__, "pipeline", "diffusers", "huggingface_hub")
