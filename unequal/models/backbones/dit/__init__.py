"""The transformer of DiT and SiT as a backbone: built, taken over from elsewhere, pruned, and given to diffusers."""

from unequal.extras import needs

needs(__name__, "pipeline", "diffusers")
