"""Autoencoders between images and what diffusion sees, their training, encoded data sets."""

from unequal.extras import needs

needs(__name__, "pipeline", "diffusers", "tqdm")
