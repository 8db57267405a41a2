"""Autoencoders between images and what diffusion sees, their training, encoded data sets."""
