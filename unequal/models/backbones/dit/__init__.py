"""The transformer of DiT and SiT as a backbone: built, taken over from elsewhere, pruned, and given to diffusers."""
