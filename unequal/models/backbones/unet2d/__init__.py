"""The UNet2DModel of diffusers: built, taken over from elsewhere, pruned, and given to a pipeline of diffusers."""
