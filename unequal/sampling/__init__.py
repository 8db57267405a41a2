"""Sampling from noise to images: the network for each timestep, and its condition."""
