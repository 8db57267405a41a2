"""Autoencoders between images and what diffusion sees, their training, encoded data sets."""

from unequal.errors import needs

needs(__name__, "pipeline", "diffusers", "tqdm")
