"""Timesteps of training: densities, draws, weights, partitions."""
