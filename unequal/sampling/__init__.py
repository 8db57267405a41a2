"""Sampling from noise to images: the network for each timestep, and its condition."""

from unequal.errors import needs

needs(__name__, "pipeline", "tqdm")
